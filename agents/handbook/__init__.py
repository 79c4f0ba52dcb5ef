"""The agent that answers from the docs of goalport: `search_docs` and `ask_docs` over MCP. See docs/handbook.md.

`agent` has the steps, `answers` is what goes in and out, `citations` checks what a model cites against what it was
shown, `wording` says it in Markdown, and `prompts/` has what the model is asked.
"""

from .agent import Handbook

handbook = Handbook()
