"""The AG-UI door: chatbots and goals for web front ends, by version 1.0 of the Agent-User Interaction Protocol.

A run is one request, answered by a stream of events; a question ends it, and another run brings the answer. All state
between two runs is in the store, nothing is in memory. Below: platform, publish, auth and web. Above: the
site, which mounts its routes; it knows no other door.
"""

from goalport.server.doors.agui.door import AguiDoor

__all__ = ["AguiDoor"]
