"""What a docstring says to a model: what the function is for, and what each parameter means.

Reads Google, NumPy and Sphinx sections. It knows nothing of types: those come from the signature.
"""

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from docstring_parser import Docstring, ParseError, parse

__all__ = ["Documentation", "read_docstring"]


@dataclass(frozen=True, slots=True)
class Documentation:
    """A docstring taken apart."""

    description: str
    parameters: Mapping[str, str]


def read_docstring(text: str | None, parameters: Collection[str]) -> Documentation:
    """Take a docstring apart. Where it describes none of `parameters`, all of it is the description."""
    whole = inspect.cleandoc(text or "").strip()
    try:
        found = parse(whole)
    except ParseError:
        return Documentation(whole, {})
    described = {each.arg_name: _line(each.description) for each in found.params if each.arg_name in parameters}
    if not described:
        return Documentation(whole, {})
    return Documentation(_without_parameters(found), described)


def _without_parameters(found: Docstring) -> str:
    parts = [found.short_description, found.long_description]
    if found.returns and found.returns.description:
        parts.append(f"Returns: {_line(found.returns.description)}")
    parts.extend(f"Example: {(each.snippet or each.description or '').strip()}" for each in found.examples)
    return "\n\n".join(part.strip() for part in parts if part)


def _line(text: str | None) -> str:
    return " ".join((text or "").split())
