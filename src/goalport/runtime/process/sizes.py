"""Estimates how many bytes values take in memory, without looking at all of a large one."""

import gc
import sys
from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, Final

_LOOKS: Final = 64
"""About how many nested values are inspected."""
_MOST_PARTS: Final = 1_000
"""The most parts of one value whose own size is measured."""
_OVERHEAD: Final = 400
"""Bytes that an object with a `__dict__` takes besides its fields; pydantic models take more than data classes."""
_ATOMS: Final = (str, bytes, int, float, bool, NoneType)
_ATOM_TYPES: Final = frozenset(_ATOMS)
_HOLDERS: Final = (str, bytes, bytearray, list, tuple, dict, set, frozenset)
"""Classes whose instances hold data outside of `__dict__`, also in subclasses."""
_SHARED: Final = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
"""Objects that a value refers to but shares with the rest of the program."""


def estimated_size(value: object) -> int:
    """About how many bytes a value takes with everything that it holds.

    If it has many parts, some are measured, and the others count as large as these on average.
    """
    fields: dict[str, object] | None = getattr(value, "__dict__", None)
    if type(fields) is dict and _ATOM_TYPES.issuperset(map(type, fields.values())):
        # Pydantic's models have two more places.
        more = getattr(value, "__pydantic_extra__", None) or getattr(value, "__pydantic_private__", None)
        if not any((more, isinstance(value, _HOLDERS))):
            return _OVERHEAD + sum(map(sys.getsizeof, fields.values()))  # most values: a microsecond
    return round(_size(value, _LOOKS))


def _size(value: object, looks: int) -> float:
    if isinstance(value, _ATOMS):
        return sys.getsizeof(value)
    referred = gc.get_referents(value)
    counted = _some(referred, _MOST_PARTS)
    parts = [each for each in counted if not isinstance(each, _SHARED)]
    atoms = sum(sys.getsizeof(each) for each in parts if isinstance(each, _ATOMS))
    inner = [each for each in parts if not isinstance(each, _ATOMS)]
    # Each level has fewer looks than the one above, so a value that holds itself comes to an end.
    looked = _some(inner, max(1, looks // 4)) if looks > 1 else ()
    if looked:
        inside = sum(_size(each, (looks - 1) // len(looked)) for each in looked) * len(inner) / len(looked)
    else:
        inside = sum(map(sys.getsizeof, inner))
    return sys.getsizeof(value) + (atoms + inside) * len(referred) / max(1, len(counted))


def _some(values: Sequence[Any], most: int) -> Sequence[Any]:
    """At most `most` of the values, taken at regular intervals."""
    return values[:: -(-len(values) // most)] if len(values) > most else values
