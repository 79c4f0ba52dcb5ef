"""A workflow that is complete: an agent to deploy, or a part of an action. All builders end in one.

Its stages run one after the other, and each is an action of the agent, so that plans show them and each is stored when
it has ended. As part of an action they run in that action: its journal has what their models replied and people
answered, so nothing of it is paid or asked twice, although nobody could find the workflow again by a name. Either way
the steps work on copies of the blackboard, and only the result leaves the workflow. (User guide, sections 3.6.11, 3.7.)
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Generic, TypeVar, cast

from goalport.agents.blackboard import Typed
from goalport.agents.domain import Action, ActionMark, Agent, Export, Injected, Input, read_goal
from goalport.agents.domain.decorators import GoalMark
from goalport.agents.domain.signature import Outputs, read_outputs
from goalport.base.errors import DeclarationError, NonRetryable
from goalport.base.introspection import Origin
from goalport.base.words import listed, with_article
from goalport.runtime.ai import Ai
from goalport.runtime.process import ActionContext
from goalport.runtime.process.parameters import missing
from goalport.runtime.workflow.step import Step

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a workflow that is an action of its agent."""

    name: str
    description: str
    kind: object
    """The type of what it gives."""
    steps: Sequence[Step[Any]]
    """The functions that it may call."""
    made: Sequence[object]
    """The types that it puts on the blackboards of its steps itself."""
    run: Callable[[ActionContext], Awaitable[object]]
    inputs: tuple[Input, ...] = ()
    """What it takes besides what its steps want."""

    @property
    def wants(self) -> tuple[Input, ...]:
        """The inputs that have to be there when it begins, each once."""
        wanted = chain(self.inputs, *(each.wants(self.made) for each in self.steps))
        return tuple({(repr(each.type), each.binding): each for each in wanted}.values())

    def outputs(self, of: str) -> Outputs:
        """What it gives, read as the annotation of an action would be. Raises `DeclarationError`."""

        def give() -> None:
            """Stands for the function of an action."""

        give.__annotations__ = {"return": self.kind}
        give.__qualname__ = f"{of}.{self.name}"
        give.__module__ = next((each.origin.written.__module__ for each in self.steps), give.__module__)
        return read_outputs(Origin(give))


@dataclass(frozen=True)
class Workflow(Generic[R]):
    """A workflow: `build_agent` makes an agent of it, and `as_sub_process` runs it in an action."""

    kind: type[R]
    """The type of the result."""
    stages: Sequence[Stage] = field(repr=False)

    def build_agent(
        self,
        name: str,
        description: str,
        *,
        export: Export | None = None,
        goal: str = "",
        tags: Sequence[str] = (),
        examples: Sequence[str] = (),
        provider: str = "",
        version: str = "0.1.0",
    ) -> Agent:
        """An agent that runs the workflow; it is deployed as any other, at the top level of a module in `agents/`.

        `goal` describes what it achieves, by default as `description` does, and `export` says how that is published.
        It is opaque: no other agent plans with its actions. Its processes are found again after a restart when it is
        deployed again under the same name. Raises `DeclarationError` for an empty name or description.
        """
        for what, text in (("name", name), ("description", description)):
            if not text.strip():
                raise DeclarationError(
                    f"The agent {name!r}",
                    expected=f"a {what} of the agent",
                    came="it is empty",
                    fix='Write build_agent("name", "What it is for, to people and models").',
                )
        mark = GoalMark(
            description=goal or description, value=0.0, tags=tags, examples=examples, export=export or Export()
        )
        actions = tuple(_action(name, each) for each in self.stages)
        return Agent(
            name,
            description,
            provider,
            version,
            opaque=True,
            actions=actions,
            goals=(read_goal(actions[-1], mark),),
            source=self._source,
        )

    async def as_sub_process(self, context: ActionContext, *inputs: object) -> R:
        """Run the workflow in the action of this context, on a copy of its blackboard to which `inputs` are added.

        Raises `NonRetryable`, before anything runs, when an input is not there, and else what the steps raise.
        """
        own = context.on_copy(*inputs)
        self._refuse_missing(own)
        result: object = None
        for stage in self.stages:
            result = await stage.run(own)
            own = own.on_copy(Typed(result, stage.kind))
        return cast("R", result)

    @property
    def _source(self) -> str:
        steps = (step for stage in self.stages for step in stage.steps)
        return next((str(each.origin) for each in steps), "")

    def _refuse_missing(self, context: ActionContext) -> None:
        made: list[object] = []
        for stage in self.stages:
            wanted = [each for each in stage.wants if each.type not in made]
            if lacking := missing(wanted, context.blackboard):
                raise NonRetryable(
                    f"The workflow of {self._source} takes {listed(map(with_article, lacking))}, which is not on the"
                    " blackboard. Pass it: as_sub_process(context, …)."
                )
            made.append(stage.kind)


def _action(agent: str, stage: Stage) -> Action:
    async def run(context: ActionContext, **_: object) -> object:
        return await stage.run(context.on_copy())

    injected = [Injected("context", ActionContext)]
    injected += [Injected("ai", Ai)] if any(each.asks_a_model for each in stage.steps) else []
    inputs = (replace(each, name=f"input_{number}") for number, each in enumerate(stage.wants, start=1))
    settings = ActionMark(description=stage.description)
    return Action(f"{agent}.{stage.name}", run, (*injected, *inputs), stage.outputs(agent), settings)
