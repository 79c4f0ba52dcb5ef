"""The door for clients of OpenAI's API: chatbots, and goals that take a sentence, are models that they talk to.

Below: chat, platform, publish, auth and web. Above: the site, which mounts its routes; it knows no other door.
"""

from goalport.server.doors.openai.door import OpenAiDoor

__all__ = ["OpenAiDoor"]
