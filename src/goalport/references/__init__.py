"""References: what a prompt refers to, with notes for the model and tools to look further. User guide, section 3.10.1.

Every program that asks a model loads this package, so the kinds of references, and what they read with, are loaded when
they are first used; `__init__.pyi` tells type checkers the same names. Below: `tools`, `prompts` and `documents`.
Above: `ai` puts the notes into the system prompt and offers the tools.
"""

# pyright: reportUnsupportedDunderAll=false
# The names are in __init__.pyi, which pyright does not read for the file beside it.

from importlib import import_module

from goalport.references.reference import LlmReference, Reference, Refreshing, refreshed

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

_MODULES = {
    "directory": ["GitHubRepository", "LocalDirectory"],
    "python_api": ["PythonApi"],
    "reference_file": [
        "LlmReferenceProvider",
        "LlmReferenceProviders",
        "contributors_from_yaml",
        "references_from_yaml",
    ],
    "texts": ["RefreshPolicy", "TextReference", "file_text", "package_resource", "web_page"],
}


def __getattr__(name: str) -> object:
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return found
