"""The agent that writes a story and lets a person have it changed: `write_and_review_story` over MCP.

See docs/write-and-review.md. `agent` begins, `stages` has the states and the loop between them, `story` what goes in
between and out, `prompts/` what the model is asked.
"""

from .agent import WriteAndReview

write_and_review = WriteAndReview()
"""The agent: it writes a draft; what happens then is a matter of stages, and of what the person says."""
