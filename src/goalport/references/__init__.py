"""What a prompt may lean on beside its own words: notes for the model, and tools to look further.

Below: `tools` and `prompts`. Above: `ai` puts the notes into the system prompt and offers the tools.
"""

from goalport.references.reference import LlmReference, Reference

__all__ = ["LlmReference", "Reference"]
