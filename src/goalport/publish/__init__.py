"""What is offered and how answers look: names, schemas, arguments, tools, prompts, answers. Floor 8.

No transport and no session: a door (`serve`) puts what is made here on its wire. The command line reads it too.
"""

from goalport.publish.publication import Publication, publish
from goalport.publish.report import report_of

__all__ = ["Publication", "publish", "report_of"]
