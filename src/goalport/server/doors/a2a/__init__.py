"""The A2A door: goals and chatbots as agents for other agents, by versions 1.0 and 0.3 of the Agent2Agent Protocol.

A task is a process, or one turn of a conversation, under its own id: this door stores nothing. The SDK (extra `a2a`)
reads and writes the protocol. Below: platform, publish, auth and web. Above: the site, which mounts its routes.
"""

from goalport.server.doors.a2a.door import A2aDoor

__all__ = ["A2aDoor"]
