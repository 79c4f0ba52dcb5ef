"""Results of tools that are longer than a model gets at once: the pieces of them, and the tool that reads on."""

import json
from typing import Annotated

from pydantic import Field

from goalport.base.errors import ToolError
from goalport.tools import Tool


class LongResults:
    """The long results of one conversation, of which a model gets at most `limit` characters at once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._texts: list[str] = []
        self.tool = Tool.of(self._read_on, name="read_on")

    def beginning(self, text: str, reader: str) -> str:
        """Keep a long text; its first piece, which says how to read on with the tool, of which `reader` is the name."""
        self._texts.append(text)
        return self._piece(len(self._texts), 0, f"call {reader} with")

    def _read_on(
        self,
        result: Annotated[int, Field(ge=1, description="The number of the result, as it was told")],
        start: Annotated[int, Field(ge=0, description="How many characters to leave out at its beginning")],
    ) -> str:
        """Read on in a long result of a tool, of which only the beginning was given."""
        if result > len(self._texts) or start >= len(self._texts[result - 1]):
            raise ToolError("There is nothing there. Use the numbers that you were told.")
        return self._piece(result, start, "call it again with")

    def _piece(self, number: int, start: int, call: str) -> str:
        text = self._texts[number - 1]
        end = start + self.limit
        if end >= len(text):
            return text[start:]
        arguments = json.dumps({"result": number, "start": end})
        return (
            f"{text[start:end]}\n[These are the characters from {start:,} to {end:,} of {len(text):,}. "
            f"To read on, {call} {arguments}.]"
        )
