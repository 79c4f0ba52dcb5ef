"""References: what a prompt refers to, with notes for the model and tools to look further. User guide, section 3.10.1.

Below: `tools`, `prompts` and `documents`. Above: `ai` puts the notes into the system prompt and offers the tools.
"""

from goalport.references.directory import GitHubRepository, LocalDirectory
from goalport.references.python_api import PythonApi
from goalport.references.reference import LlmReference, Reference, Refreshing, refreshed
from goalport.references.reference_file import (
    LlmReferenceProvider,
    LlmReferenceProviders,
    contributors_from_yaml,
    references_from_yaml,
)
from goalport.references.refresh import RefreshPolicy
from goalport.references.texts import TextReference, file_text, package_resource, web_page

__all__ = [
    "GitHubRepository",
    "LlmReference",
    "LlmReferenceProvider",
    "LlmReferenceProviders",
    "LocalDirectory",
    "PythonApi",
    "Reference",
    "RefreshPolicy",
    "Refreshing",
    "TextReference",
    "contributors_from_yaml",
    "file_text",
    "package_resource",
    "references_from_yaml",
    "refreshed",
    "web_page",
]
