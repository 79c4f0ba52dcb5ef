"""The agent that checks the facts of a text with several models: `check_facts` over MCP. See docs/fact-checker.md.

`agent` has the steps, `facts` what goes in, between and out, `checkers` which models are asked, `verdicts` how one
verdict is made of what they find, `wording` says it in Markdown, and `prompts/` has what they are asked.
"""

from .agent import FactChecker

fact_checker = FactChecker()
