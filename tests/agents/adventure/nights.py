"""A person who plays by a script, with any client. No test is in here."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import anyio
import jsonschema
from mcp import Client
from mcp_types import CallToolResult

TEA, COATS, GUARD, LEAVE_TEA = (
    "make a pot of tea",
    "look into the cloakroom",
    "search the coat of the guard",
    "go to the hall",
)
DOOR, EGYPT, TO_TEA, UP = (
    "try the front door",
    "enter the Egyptian room",
    "follow the smell of tea",
    "climb to the roof",
)
LID, PRINT, BACK = "open the sarcophagus", "read the small print", "go back to the hall"
JUMP, VIEW, DOWN = "jump with what you have", "admire the view", "climb down again"

Answer = str | bool


@dataclass
class Night:
    """One game."""

    client: Client
    name: str = "Ada"
    messages: list[str] = field(default_factory=list[str])
    """What the person was asked."""

    async def play(self, answers: Iterable[Answer]) -> dict[str, Any]:
        """Answer in this order; what the last answer led to: a tale, or a handle."""
        with anyio.fail_after(60):
            found = self._read(await self.client.call_tool("play_adventure", {"name": self.name}))
            for answer in answers:
                found = self._read(await self._answer(found, answer))
            return found

    async def _answer(self, handle: dict[str, Any], answer: Answer) -> Any:
        (question,) = handle["questions"]
        self.messages.append(question["message"])
        process = {"processId": handle["processId"]}
        if question["kind"] == "confirmation":
            return await self.client.call_tool("process_answer", {**process, "answer": answer})
        data = {"choice": answer}
        jsonschema.validate(data, question["schema"])
        return await self.client.call_tool("process_answer", {**process, "answer": data})

    def _read(self, result: Any) -> dict[str, Any]:
        assert isinstance(result, CallToolResult)
        assert not result.is_error, result
        found: Any = result.structured_content
        return found


GAMES: dict[str, tuple[Answer, ...]] = {
    "exit": (TO_TEA, GUARD, LEAVE_TEA, DOOR),
    "tea": (TO_TEA, TEA, LEAVE_TEA, EGYPT, PRINT, LID, True),
    "guard": (EGYPT, LID, True),
    "flight": (TO_TEA, COATS, LEAVE_TEA, UP, JUMP),
    "exhibit": (EGYPT, LID, False, LID, *[PRINT] * 9),
}
"""The shortest or oddest way to each ending."""
