"""The REST door: goals started, followed, answered and ended over plain HTTP and JSON, and their events as a stream.

It serves the same published goals as the MCP server, with the same validation and results. Below: platform, publish
and auth. Above: the site, which mounts its routes; it knows no other door.
"""

from goalport.server.doors.rest.door import RestDoor

__all__ = ["RestDoor"]
