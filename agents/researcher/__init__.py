"""The agent that writes a report on a question until a critic accepts it: `research` over MCP. See docs/researcher.md.

`agent` has the steps, `drafts` the loop of writing and critique, `report` what goes in, between and out, `wording` says
it in Markdown, and `prompts/` has what the models are asked.
"""

from .agent import Researcher

researcher = Researcher()
