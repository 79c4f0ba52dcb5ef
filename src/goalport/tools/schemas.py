"""How JSON Schemas are made of types here: without the titles that repeat the names of fields.

A model pays for every word of a schema; a title that says `A` for the field `a` tells it nothing.
"""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from goalport.tools.finite import odd_numbers_in_words

__all__ = ["PlainSchema"]


class PlainSchema(GenerateJsonSchema):
    """Pydantic's schema without made-up titles; defaults that JSON cannot express are left out silently."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic declares it so

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def encode_default(self, dft: Any) -> Any:
        """A default as JSON. Raises `PydanticSerializationError` for what JSON does not have, which is left out."""
        encoded = super().encode_default(dft)
        if words := odd_numbers_in_words(encoded):
            raise PydanticSerializationError(words)
        return encoded
