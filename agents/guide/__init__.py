"""The chatbot that guides through the docs of goalport: `goalport chat guide`, and every other door. See docs/chat.md.

`agent` has the actions, of which the one that is worth most answers a message; `requests` says by words what a message
asks for, `reading` is the state of reading a document in steps, `notes` keeps what people propose, `sources` checks
what a model cites, `wording` says things in Markdown, and `prompts/` has the system prompt with its persona.
"""

from .agent import Guide

guide = Guide()
"""The chatbot: it answers with sources, or without a model with what it finds; reads with you; and writes notes."""
