"""References: what a prompt refers to, with notes for the model and tools to look further. User guide, section 3.10.1.

Every program that asks a model imports this package. The kinds of references, and the libraries that they need, are
therefore imported at first use; `__init__.pyi` lists the same names for type checkers. Below: `tools`, `prompts` and
`documents`. Above: `ai` puts the notes into the system prompt and offers the tools.
"""

# pyright: reportUnsupportedDunderAll=false
# The names are in __init__.pyi, which pyright does not read for the file beside it.

from goalport.base.lazy import lazy_exports
from goalport.knowledge.references.reference import (
    LlmReference,
    NamedReferences,
    QuestionAware,
    Reference,
    Refreshing,
    refreshed,
)

__all__ = [
    "GitHubRepository",
    "LlmReference",
    "LlmReferenceProvider",
    "LlmReferenceProviders",
    "LocalDirectory",
    "NamedReferences",
    "PythonApi",
    "QuestionAware",
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

__getattr__ = lazy_exports(
    __name__,
    {
        "python_api": ["PythonApi"],
        "reference_file": [
            "LlmReferenceProvider",
            "LlmReferenceProviders",
            "contributors_from_yaml",
            "references_from_yaml",
        ],
        "texts": [
            "GitHubRepository",
            "LocalDirectory",
            "RefreshPolicy",
            "TextReference",
            "file_text",
            "package_resource",
            "web_page",
        ],
    },
)
