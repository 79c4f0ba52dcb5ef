"""How a goal is published: the name, texts and hints of its tool, and how long its calls wait.

It is data alone: `goalport.server.publish` makes tools of it. Below the decorators, whose `@achieves_goal` takes an
`Export`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from goalport.agents.domain.checks import require_boolean, require_limit, require_text, require_types
from goalport.base.caller import require_scopes

OnDisconnect = Literal["kill", "detach"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Export:
    """What `@achieves_goal(export=…)` says of a goal's publication (user guide, section 3.24.1)."""

    name: str = ""
    """The tool's name; by default `<agent>_<method>` in snake case."""
    remote: bool = False
    """Offer the goal over MCP."""
    starting_input_types: Sequence[type] = ()
    """The types from which the goal can be started: each becomes a tool. By default those that its plan needs and no
    action makes."""
    title: str = ""
    """A title for people, shown by hosts instead of the name."""
    description: str = ""
    """What the tool does, for the model that may call it; by default the goal's description."""
    read_only: bool | None = None
    """A hint for hosts: reaching the goal changes nothing."""
    destructive: bool | None = None
    """A hint for hosts: reaching the goal may destroy something."""
    idempotent: bool | None = None
    """A hint for hosts: reaching the goal again with the same input changes nothing more."""
    open_world: bool | None = None
    """A hint for hosts: reaching the goal touches the world outside."""
    scopes: Sequence[str] | None = None
    """The scopes that a caller needs, all of them, to start the goal, to answer its questions and to end it. None: the
    scope to read for a goal that is `read_only`, else the scope to write. An empty list: any valid credential will do.
    """
    on_disconnect: OnDisconnect = "kill"
    """What becomes of the process when its client disconnects: it ends ("kill") or goes on without it ("detach")."""
    long: bool | None = None
    """Reaching the goal may take longer than hosts wait, or an agent that it starts may ask a person: after
    `wait_budget` a request answers with a handle by which the process is followed. None: when some action of its agent
    takes an `Ai`, or a model supervises it. A goal whose own agent may ask a person is treated so whatever is said."""
    durable: bool = False
    """Store each step of its processes, as is done for goals that are long or ask people; otherwise a process is stored
    once, when it has ended."""
    wait_budget: float | None = None
    """Seconds after which such a request answers; by default 45, and 240 when the caller asked for progress or shows a
    person a form. A client that declares the Tasks extension gets a task after them; by default at once."""
    max_cost: float = 0
    """The most US dollars that reaching it may cost; 0: as the platform says. The smallest limit counts, here as below:
    this one, that of the platform, and that of the caller."""
    max_tokens: int = 0
    """The most tokens, of input and output together."""
    max_actions: int = 0
    """The most actions that may run."""
    max_seconds: float = 0
    """The seconds after which the process is terminated."""
    task_required: bool = False
    """Only MCP clients that declare the Tasks extension may call it; others are refused. It counts as `long`."""

    def __post_init__(self) -> None:
        for what in ("name", "title", "description"):
            require_text(what, getattr(self, what))
        for what in (
            "remote",
            "read_only",
            "destructive",
            "idempotent",
            "open_world",
            "long",
            "durable",
            "task_required",
        ):
            require_boolean(what, getattr(self, what))
        require_types("starting_input_types", self.starting_input_types)
        require_scopes("scopes", self.scopes)
        if self.on_disconnect not in get_args(OnDisconnect):
            raise ValueError(f'Expected on_disconnect to be "kill" or "detach", but got {self.on_disconnect!r}.')
        for what in ("max_cost", "max_tokens", "max_actions", "max_seconds"):
            require_limit(what, getattr(self, what), whole=what in {"max_tokens", "max_actions"})
        if self.wait_budget is not None and not 0 < self.wait_budget < math.inf:
            raise ValueError(f"Export(wait_budget=…) was expected to be seconds above 0, not {self.wait_budget!r}.")

    @property
    def limits(self) -> Mapping[str, Any]:
        """The limits of its processes, by the names that `ProcessOptions.within` has for them."""
        names = ("cost", "tokens", "actions", "seconds")
        return {name: limit for name in names if (limit := getattr(self, f"max_{name}"))}
