"""What a server publishes and how it answers: names, schemas, arguments, tools, prompts, results.

This room knows no transport and no session: `doors.mcp` sends what is made here. The command line uses this room too.
"""

from goalport.server.publish.publication import Publication, publish
from goalport.server.publish.report import report_of

__all__ = ["Publication", "publish", "report_of"]
