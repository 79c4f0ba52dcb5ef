"""Commands of one program to the program that runs a process, as data that a store can pass on."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

import anyio

from goalport.base.caller import Caller
from goalport.base.errors import BadInput, Unstorable
from goalport.runtime.process import AgentProcess, Killed, Terminated
from goalport.store import Codec, Json, Sealed

Command = Mapping[str, Json]
_END_SECONDS: Final = 5.0
"""The most seconds that the sender of a command to end a process waits until it has stopped."""


class CommandHandler(Protocol):
    """The processes of the program that carries commands out."""

    async def find(self, process_id: str) -> AgentProcess:
        """The process of that id."""
        ...

    async def answer(self, process: AgentProcess, question_id: str | None, response: object, declined: str) -> None:
        """Take the answer to a question of a process."""
        ...

    async def go_on(self, process: AgentProcess, *, retry: bool) -> None:
        """Go on with a process in which an action was interrupted."""
        ...

    async def tell(self, process: AgentProcess, objects: Sequence[object], caller: Caller | None, token: str) -> None:
        """Begin a turn of a process with more objects."""
        ...

    def codec(self, process_id: str, /) -> Codec:
        """What reads and writes the values of a process."""
        ...


def answer_command(codec: Codec, question_id: str | None, response: object, declined: str) -> Command:
    """To answer a question; the response is encrypted, as it may be a password, if there is a key.

    Raises `Unstorable` for a response that cannot be written.
    """
    try:
        given = codec.encode(Sealed(response))
    except Unstorable:
        given = codec.encode(response)
    return {"do": "answer", "question": question_id, "response": given, "declined": declined}


def end_command(wanted: Killed | Terminated) -> Command:
    """To end a process."""
    return {"do": "end", "kill": isinstance(wanted, Killed), "reason": wanted.reason}


def go_on_command(*, retry: bool) -> Command:
    """To go on with a process in which an action was interrupted."""
    return {"do": "go on", "retry": retry}


def tell_command(codec: Codec, objects: Sequence[object], caller: Caller | None, token: str) -> Command:
    """To begin a turn with more objects, once. Raises `Unstorable` for one that cannot be written."""
    told = [codec.encode(each) for each in objects]
    return {"do": "tell", "objects": told, "caller": codec.encode(caller), "token": token}


def stop_command(reason: str) -> Command:
    """To stop the turn that runs."""
    return {"do": "stop turn", "reason": reason}


async def execute(handler: CommandHandler, process_id: str, command: Command) -> None:
    """Carry a command out. Raises what it is refused with."""
    process = await handler.find(process_id)
    match command:
        case {"do": "answer", "question": str() | None as question, "declined": str(declined)}:
            response = handler.codec(process_id).decode(command["response"])
            await handler.answer(process, question, response, declined)
        case {"do": "end", "kill": bool(kill), "reason": str(reason)}:
            process.end(Killed(reason) if kill else Terminated(reason))
            with anyio.move_on_after(_END_SECONDS):
                await process.rest()
        case {"do": "go on", "retry": bool(retry)}:
            await handler.go_on(process, retry=retry)
        case {"do": "tell", "caller": caller, "token": str(token)}:
            codec = handler.codec(process_id)
            told = [codec.decode(each) for each in cast("list[Json]", command["objects"])]
            await handler.tell(process, told, cast("Caller | None", codec.decode(caller)), token)
        case {"do": "stop turn", "reason": str(reason)}:
            process.stop_turn(reason)
        case _:
            raise BadInput(f"Process {process_id} runs in a program that does not know this command.")
