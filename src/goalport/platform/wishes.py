"""What one program wants of the program that runs a process, as data that a store can pass on."""

from collections.abc import Mapping
from typing import Final, Protocol

import anyio

from goalport.errors import BadInput, Unstorable
from goalport.process import AgentProcess, Killed, Terminated
from goalport.store import Codec, Json, Sealed

__all__ = ["Granter", "Wish", "grant", "wish_for_answer", "wish_for_end", "wish_to_go_on"]

Wish = Mapping[str, Json]
_END_SECONDS: Final = 5.0
"""The most seconds that another program, which wanted a process to end, waits until it has stopped."""


class Granter(Protocol):
    """The processes of the program that does what is wanted."""

    async def find(self, process_id: str) -> AgentProcess:
        """The process of that id."""
        ...

    async def answer(self, process: AgentProcess, question_id: str | None, response: object, declined: str) -> None:
        """Take the answer to a question of a process."""
        ...

    async def go_on(self, process: AgentProcess, *, retry: bool) -> None:
        """Go on with a process in which an action was interrupted."""
        ...

    def codec(self, process_id: str) -> Codec:
        """What reads and writes the values of a process."""
        ...


def wish_for_answer(codec: Codec, question_id: str | None, response: object, declined: str) -> Wish:
    """That a question is answered; the response is encrypted, as it may be a password, if there is a key.

    Raises `Unstorable` for a response that cannot be written.
    """
    try:
        given = codec.encode(Sealed(response))
    except Unstorable:
        given = codec.encode(response)
    return {"do": "answer", "question": question_id, "response": given, "declined": declined}


def wish_for_end(wanted: Killed | Terminated) -> Wish:
    """That a process ends."""
    return {"do": "end", "kill": isinstance(wanted, Killed), "reason": wanted.reason}


def wish_to_go_on(*, retry: bool) -> Wish:
    """That a process goes on in which an action was interrupted."""
    return {"do": "go on", "retry": retry}


async def grant(granter: Granter, process_id: str, wish: Wish) -> None:
    """Do what another program wants. Raises what it is refused with."""
    process = await granter.find(process_id)
    match wish:
        case {"do": "answer", "question": str() | None as question, "declined": str(declined)}:
            response = granter.codec(process_id).decode(wish["response"])
            await granter.answer(process, question, response, declined)
        case {"do": "end", "kill": bool(kill), "reason": str(reason)}:
            process.end(Killed(reason) if kill else Terminated(reason))
            with anyio.move_on_after(_END_SECONDS):
                await process.rest()
        case {"do": "go on", "retry": bool(retry)}:
            await granter.go_on(process, retry=retry)
        case _:
            raise BadInput(f"Process {process_id} runs in a program that does not know what is wanted of it.")
