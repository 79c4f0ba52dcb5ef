"""Declaring a chatbot: an agent whose actions react to what people say, turn by turn. User guide, section 3.12.13.

Below the reader, which puts what was declared into the `Agent`. The room `chat` runs it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar, overload

from goalport.agents.domain.checks import require_amount, require_boolean, require_names, require_settings, require_text
from goalport.agents.domain.decorators import AgentMark, put_mark
from goalport.agents.domain.planner_type import PlannerType
from goalport.base.caller import require_scopes

C = TypeVar("C", bound=type)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatbotMark:
    """How people talk to an agent. The limits hold for one turn: from a message to the end of what it causes."""

    max_actions_per_turn: int = 50
    """The most actions."""
    max_cost_per_turn: float = 2.0
    """The most US dollars for models."""
    max_tokens_per_turn: int = 1_000_000
    """The most tokens of models, of input and output together."""
    seconds_per_turn: float | None = None
    """The most seconds; None: any number."""
    stop_when_reader_leaves: bool = False
    """Whether a reply ends when the one who asked goes away; otherwise it is finished and stored."""
    max_history_tokens: int = 100_000
    """How many tokens of the conversation a model is shown before what is old is made shorter."""
    scopes: Sequence[str] = ()
    """The scopes that a caller needs to talk to it, where callers are authenticated; empty: the scope to write."""
    context_id: str = ""
    """The context of its caller with whose objects each conversation begins; empty: none."""
    context_scope: str = ""
    """The scope by which that context is shared by all who have it; empty: each caller has a context of that id."""

    def __post_init__(self) -> None:
        for what in ("max_actions_per_turn", "max_tokens_per_turn", "max_history_tokens"):
            number = getattr(self, what)
            if not (isinstance(number, int) and number > 0):
                raise TypeError(f"Expected {what} to be a whole number from 1 up, but got {number!r}.")
        require_amount("max_cost_per_turn", self.max_cost_per_turn)
        if self.seconds_per_turn is not None:
            require_amount("seconds_per_turn", self.seconds_per_turn)
        require_boolean("stop_when_reader_leaves", self.stop_when_reader_leaves)
        require_names("scopes", self.scopes)
        require_text("context_id", self.context_id)
        if self.context_scope:
            require_scopes("context_scope", [self.context_scope])


@overload
def chatbot(cls: C, /) -> C: ...
@overload
def chatbot(
    *,
    description: str = "",
    name: str = "",
    provider: str = "",
    version: str = "0.1.0",
    opaque: bool = False,
    access: str | None = None,
    max_actions_per_turn: int = 50,
    max_cost_per_turn: float = 2.0,
    max_tokens_per_turn: int = 1_000_000,
    seconds_per_turn: float | None = None,
    stop_when_reader_leaves: bool = False,
    max_history_tokens: int = 100_000,
    scopes: Sequence[str] = (),
    context_id: str = "",
    context_scope: str = "",
) -> Callable[[C], C]: ...
def chatbot(
    cls: C | None = None,
    /,
    *,
    description: str = "",
    name: str = "",
    provider: str = "",
    version: str = "0.1.0",
    opaque: bool = False,
    access: str | None = None,
    **turns: Any,
) -> C | Callable[[C], C]:
    """Mark a class as a chatbot: an agent with the utility planner whose actions react to what people say.

    An action that takes a `UserMessage`, or has it as its trigger, and that has `can_rerun=True` answers a message; of
    several, the one that is worth most does. A chatbot needs no goal; one that it has ends the conversation. The first
    settings are those of `@agent`, the others those of `ChatbotMark`. Raises `TypeError` for a setting of a wrong type.
    """
    known = (each.name for kind in (AgentMark, ChatbotMark) for each in fields(kind))
    require_settings("chatbot", turns, (each for each in known if each not in ("component", "planner")))
    mark = ChatbotMark(**turns)
    agent = AgentMark(
        name=name,
        description=description,
        provider=provider,
        version=version,
        opaque=opaque,
        access=access,
        planner=PlannerType.UTILITY,
    )

    def put(cls: C) -> C:
        return put_mark(mark, put_mark(agent, cls))

    return put if cls is None else put(cls)
