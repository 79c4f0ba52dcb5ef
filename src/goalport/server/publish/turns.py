"""Turns: how a call of any door talks to a chatbot, with the same limits, log and audit as the calls of goals.

A door finds the chatbot and refuses who may not talk to it (`auth.Access.of_chatbot`, or `platform.may_chat`). In the
context of the `Call` that it makes for the request (`publisher.calls.of`), it then begins its turn within

    async with admitted_turn(publisher, call, partial(session.begin_turn, message)) as turn:
        async for event in turn.events():
            ...

`begin` may be any function that returns a `Turn`: `session.regenerate`, `session.answer` (which begins nothing), and so
on. When the block ends, the place of the call is free again, whether or not the turn is over; it goes on without its
reader unless the door cancels it, as it does with `reader_left` when its client goes away. `publisher` is below.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from goalport.runtime.chat import ChatbotMark, Turn, TurnResult
from goalport.runtime.platform.runs import CANCELLED
from goalport.runtime.process import AgentProcess
from goalport.server.publish.calls import Call
from goalport.server.publish.limits import Limits
from goalport.server.publish.publisher import Publisher


@asynccontextmanager
async def admitted_turn(
    publisher: Publisher, call: Call, begin: Callable[[], Awaitable[Turn]], *, begins: bool = True
) -> AsyncGenerator[Turn]:
    """A turn that a call begins, which has its place among the calls that are answered at once until the block ends.

    It waits for its turn in the fair queue: cancel it if the client leaves meanwhile. `begins`: the call says something
    new, and does not only answer a question. Raises `LimitReached`, `StoreError`, and what `begin` raises.
    """
    place = await publisher.limits.admit(call.caller, begins=begins)
    try:
        await place.wait()
        turn = await counted_turn(publisher.limits, call, begin)
        yield turn
        if turn.over:
            note_turn(call, await turn.result())
    finally:
        place.leave()


async def counted_turn(limits: Limits, call: Call, begin: Callable[[], Awaitable[Turn]]) -> Turn:
    """A turn that `begin` begins, counted among the processes and the costs of its caller.

    Raises `LimitReached`, and what `begin` raises.
    """
    begun: list[Turn] = []

    async def start() -> AgentProcess:
        begun.append(await begin())
        return begun[0].process

    call.process = await limits.started(call.caller, start)
    return begun[0]


def note_turn(call: Call, result: TurnResult) -> None:
    """Note what came of a turn, for the line of its call: the status of its process does not tell a reply from none."""
    call.status = "failed" if result.failure else "waiting" if result.questions else "completed"


def reader_left(turn: Turn, mark: ChatbotMark) -> None:
    """Stop a turn whose reader has gone away, if the chatbot is marked so; otherwise its reply is finished."""
    if mark.stop_when_reader_leaves:
        turn.cancel(CANCELLED)
