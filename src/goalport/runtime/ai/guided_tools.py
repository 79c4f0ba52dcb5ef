"""Tools that guide a model among other tools: unfolding tools, which reveal others, and agentic tools.

An agentic tool asks a model, which calls other tools (user guide, section 3.9.4). It is called like any other tool, by
a model or by code, and asks through the engine of whatever called it (`ToolContext`), so that its cost, its events and
its spans count towards the same action. Above: `toolbox` offers what unfolds, and `process` says which action that is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Final, Self, cast

from pydantic_core import to_json

from goalport.base.errors import DeclarationError, ModelError, ToolError
from goalport.models.llm import UserMessage
from goalport.runtime.ai.engine import (
    TOOL_CONTEXT,
    Interaction,
    Request,
    ToolUse,
    WithInteraction,
    checked,
)
from goalport.tools import ContextValues, Parameter, Tool, ToolObject, ToolResult, tools_of
from goalport.tools.functions import Arguments, listed_arguments

_DEEPEST: Final = 5
"""How many agentic tools may call one another in a row; a longer chain is a tool that calls itself."""
_CATEGORY: Final = "category"
_NOTHING: Final[Mapping[str, object]] = {"type": "object", "properties": {}}
SystemPrompt = Callable[[Any], str]
"""Makes the system prompt from the `AgentProcess`, whose class is on a higher floor."""
Selector = Callable[[Mapping[str, Any], Sequence[Tool]], Iterable[Tool]]
"""Chooses tools by the arguments of a call, among all tools behind an unfolding tool."""


@dataclass(frozen=True)
class _BuiltTool(Tool, ABC):
    """A tool that is built by `with_*` methods and works by its own fields; it has a handler only for layers."""

    input_schema: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    handler: Any = None

    @abstractmethod
    async def _work(self, arguments: Mapping[str, object]) -> ToolResult:
        """The result of a call, without the layers around the tool."""

    async def run_raising(self, arguments: Mapping[str, object]) -> ToolResult:
        if self.handler is not None:
            return await super().run_raising(arguments)
        return await self._work(arguments if self.checks_arguments else self.checked(arguments))

    def _changed(self, **changes: Any) -> Self:
        if self.handler is not None:
            kind = type(self).__name__
            raise DeclarationError(
                f"{kind} {self.name!r}",
                expected="to be changed before layers are put around it",
                came="there is one",
                fix=f"Write `{kind}(…).with_tools(…)` first, and `with_layer` last.",
            )
        return replace(self, **changes)


@dataclass(frozen=True)
class UnfoldingTool(_BuiltTool):
    """A tool in front of others: `UnfoldingTool("files", "Work with files").with_tools(read, write)`.

    It lets a model that may call hundreds of tools choose between a few first. A model sees only this tool. Once the
    model has called it, the tools behind it are offered too, from the next turn on; another call lists them again. They
    may be unfolding tools themselves. Outside of a conversation with a model, for example over MCP, the tool can only
    list. It is immutable: each `with_*` gives a copy.
    """

    read_only: bool | None = True
    checks_arguments: bool = True
    notes: str = ""
    always: tuple[Tool, ...] = ()
    """The tools without a category."""
    categories: Mapping[str, tuple[Tool, ...]] = field(default_factory=dict[str, tuple[Tool, ...]])
    selector: tuple[Selector, Arguments] | None = None
    """The function that chooses the tools in place of categories, and the signature of its arguments."""
    exclusive: bool = False
    """Whether all other tools are withdrawn when these appear."""

    def with_tools(self, *tools: Tool | Callable[..., Any]) -> Self:
        """Put these tools behind it too. A function is a tool, with or without `@tool`."""
        return self.with_tool_objects(*tools)

    def with_tool_objects(self, *objects: object) -> Self:
        """Put the `@tool` methods of these objects behind it too."""
        return self._changed(always=(*self.always, *tools_of(*objects)))

    def with_category(self, name: str, *objects: object) -> Self:
        """Put these tools and objects behind it too. They appear for this category, and when none is named."""
        categories = {**self.categories, name: (*self.categories.get(name, ()), *tools_of(*objects))}
        changed = self._changed(categories=categories)
        if self.selector is not None:
            return changed
        described = "Which tools are wanted; all when it is left out."
        category = {"type": "string", "enum": [*categories], "description": described}
        return replace(changed, input_schema={"type": "object", "properties": {_CATEGORY: category}})

    def with_selector(self, select: Selector, *parameters: Parameter) -> Self:
        """Let a function choose the tools that appear, instead of categories.

        The function gets the arguments of the call, which these parameters describe, and all tools behind this one. It
        must choose the same tools for the same arguments. The model is told of an error that the function raises.
        Raises `DeclarationError` for two parameters of one name.
        """
        signature = listed_arguments(f"UnfoldingTool {self.name!r}", parameters)
        return self._changed(selector=(select, signature), input_schema=signature.schema({}))

    def with_exclusive(self, exclusive: bool = True) -> Self:  # noqa: FBT001, FBT002 - reads as a sentence
        """Withdraw all other tools when these appear, for the rest of the conversation; this one stays."""
        return self._changed(exclusive=exclusive)

    def with_usage_notes(self, text: str) -> Self:
        """Tell the model this about the tools when they appear."""
        return self._changed(notes=text)

    def chosen(self, arguments: Mapping[str, object]) -> tuple[Tool, ...]:
        """The tools that a call asks for: those that the selector chooses, those of a category, or all.

        Raises `BadInput` for arguments that the selector does not take.
        """
        if self.selector is not None:
            select, signature = self.selector
            return tools_of(*select(signature.bind(arguments)[1], (*self.always, *chain(*self.categories.values()))))
        category = arguments.get(_CATEGORY)
        known = self.categories.get(category) if isinstance(category, str) else None
        return (*self.always, *chain(*([known] if known is not None else self.categories.values())))

    async def _work(self, arguments: Mapping[str, object]) -> ToolResult:
        tools = self.chosen(arguments)
        if not tools:
            wanted = "such tools" if self.selector else "tools"
            return ToolResult.of_error(f"There are no {wanted} behind this one. Do without them.")
        first_lines = ((each.name, each.description.strip().partition("\n")[0]) for each in tools)
        lines = "\n".join(f"- {name}: {line}" for name, line in first_lines)
        notes = f"\n\n{self.notes}" if self.notes else ""
        only = ", and no others but this one" if self.exclusive else ""
        return ToolResult.of_text(f"From now on you can call these tools{only}:\n{lines}{notes}")


@dataclass(frozen=True)
class AgenticTool(_BuiltTool, WithInteraction):
    """A tool in which a model calls other tools: `AgenticTool("math", "Solves problems").with_tools(add, multiply)`.

    It is immutable: each `with_*` gives a copy. The inner model gets the arguments as JSON and the description as its
    task, and its answer is the result. An object that an inner tool gives besides its text becomes the artifact of the
    result; several become a list. The result is an error where no model can be asked, when there are no inner tools,
    and when the model fails. The methods that `Ai` has too choose the inner model and what it is offered.
    """

    input_schema: Mapping[str, object] = field(default_factory=lambda: {**_NOTHING, "additionalProperties": False})
    timed: bool = False
    in_process: bool = True
    interaction: Interaction = field(default_factory=Interaction)
    """The settings with which the inner model is asked."""
    prompt_creator: SystemPrompt | None = None
    parameters: tuple[Parameter, ...] = ()

    def with_parameters(self, *parameters: Parameter) -> Self:
        """Take these arguments too. Calling models know no others. Raises `DeclarationError` for two of one name."""
        every = (*self.parameters, *parameters)
        return self._changed(parameters=every, input_schema=self._signature(every).schema({}))

    def with_tool_objects(self, *objects: object) -> Self:
        """Let the inner model use the `@tool` methods of these objects too. An object without any is ignored."""
        found: list[Tool] = []
        for value in objects:
            is_source = isinstance(value, Tool | ToolObject) or callable(value) or hasattr(value, "__iter__")
            found += tools_of(value) if is_source else Tool.safely_from_instance(value)
        return self.with_tools(*found)

    with_tool_object = with_tool_objects

    def with_system_prompt(self, text: str) -> Self:
        """Give the inner model this system prompt instead of the description."""
        return self._with(system_prompt=text).with_system_prompt_creator(None)

    def with_system_prompt_creator(self, creator: SystemPrompt | None) -> Self:
        """Give the inner model the system prompt that a function makes of the `AgentProcess` at each call.

        Outside of a process the call fails. None: the system prompt of `with_system_prompt`, or else the description.
        """
        return self._changed(prompt_creator=creator)

    def _signature(self, parameters: Iterable[Parameter]) -> Arguments:
        return listed_arguments(f"AgenticTool {self.name!r}", parameters)

    async def _work(self, arguments: Mapping[str, object]) -> ToolResult:
        here = TOOL_CONTEXT.get()
        if here.engine is None:
            return ToolResult.of_error(
                f"The tool {self.name!r} asks a model, and was called where none can be asked. "
                "Call it in an action, or offer it to a model: `ai.with_tools(…)`."
            )
        callers = (*here.callers, self.name)
        if len(callers) > _DEEPEST:
            return ToolResult.of_error(
                f"Tools that ask models call one another more than {_DEEPEST} deep: {' → '.join(callers)}. "
                "Answer without this one."
            )
        if self.prompt_creator is not None and here.process is None:
            return ToolResult.of_error(
                f"The system prompt of the tool {self.name!r} is made of a process, and there is none here."
            )
        asked = self.interaction
        task = f"Work on this with your tools, and answer with the result: {self.description}"
        prompt = self.prompt_creator(here.process) if self.prompt_creator else asked.system_prompt or task
        bound = self._signature(self.parameters).bind(arguments)[1] if self.parameters else arguments
        artifacts: list[object] = []
        request = Request(
            interaction=replace(asked, id=asked.id or self.name, system_prompt=prompt),
            messages=(UserMessage(to_json(bound).decode()),),
            verb="generate_text",
            needs_tools=True,
            on_artifact=artifacts.append,
        )
        try:
            with ContextValues((TOOL_CONTEXT, here._replace(callers=callers))):
                text = cast("str", await here.engine().run(request))
        except (ModelError, ToolError) as error:
            return ToolResult.of_error(f"The tool {self.name!r} came to no result: {error}")
        return ToolResult(text, artifact=artifacts if len(artifacts) > 1 else next(iter(artifacts), None))


@dataclass(frozen=True, slots=True)
class Unlock:
    """When a tool of a playbook can be called: `after("search") & ~after("publish")`.

    `test` gets the calls so far, including failed ones. For a condition of your own, pass your function to `Unlock`.
    """

    test: Callable[[Sequence[ToolUse]], bool]

    def __and__(self, other: "Unlock") -> "Unlock":
        return Unlock(lambda uses: self.test(uses) and other.test(uses))

    def __or__(self, other: "Unlock") -> "Unlock":
        return Unlock(lambda uses: self.test(uses) or other.test(uses))

    def __invert__(self) -> "Unlock":
        return Unlock(lambda uses: not self.test(uses))


def after(tool: str | Tool | Callable[..., Any], *, times: int = 1) -> Unlock:
    """Unlocks once a tool, passed itself or by its name, has succeeded so many times."""
    name = tool if isinstance(tool, str) else tools_of(tool)[0].name
    return Unlock(lambda uses: sum(each.tool == name and not each.result.is_error for each in uses) >= times)


def after_calls(number: int) -> Unlock:
    """Unlocks once so many calls have succeeded."""
    return Unlock(lambda uses: sum(not each.result.is_error for each in uses) >= number)


def after_artifact(kind: type) -> Unlock:
    """Unlocks once a tool has returned an object of a type. Raises `TypeError` for what is no class."""
    checked((kind,), type, "the class of an object that a tool returns")
    return Unlock(lambda uses: any(isinstance(each.result.artifact, kind) for each in uses))


@dataclass(frozen=True)
class PlaybookTool(AgenticTool):
    """An agentic tool that unlocks its inner tools step by step.

    `PlaybookTool("research", "Researches").with_tools(search).with_locked(sum_up, unlock=after("search"))`: the inner
    model sees `sum_up` once a search has succeeded. A tool stays unlocked as long as its condition holds.
    """

    locks: tuple[tuple[str, Unlock], ...] = ()
    """The names of locked tools, each with the condition that unlocks it."""

    def with_locked(self, *tools: Tool | Callable[..., Any], unlock: Unlock) -> Self:
        """Let the inner model use these tools too, as soon as a condition holds. Raises `TypeError` for no `Unlock`."""
        checked((unlock,), Unlock, "a condition, like after('search') or Unlock(function)")
        locked = tools_of(*tools)
        locks = (*self.locks, *((each.name, unlock) for each in locked))

        def withholds(uses: Sequence[ToolUse]) -> Collection[str]:
            return {name for name, condition in locks if not condition.test(uses)}

        guided = self._with(tools=(*self.interaction.tools, *locked), withholds=withholds)
        return replace(guided, locks=locks)


Machine = tuple[tuple[Hashable, str, Hashable], ...]
"""Triples: a state, the name of a tool, and the state after its successful call; None: the same state."""


@dataclass(frozen=True)
class StateMachineTool(AgenticTool):
    """An agentic tool whose inner tools depend on a state.

    `StateMachineTool("order", "Takes an order").in_state("open", add).in_state("open", pay, then="paid")`: the first
    state that is named is the initial one. A successful call of a tool with `then` leads to that state. A state may be
    any hashable value, for example a member of an enumeration. Tools of `with_tools` are offered in all states.
    """

    machine: Machine = ()

    def in_state(self, state: Hashable, *tools: Tool | Callable[..., Any], then: Hashable = None) -> Self:
        """Let the inner model use these tools in a state. Raises `DeclarationError` for None as a state."""
        if state is None:
            raise DeclarationError(
                f"StateMachineTool {self.name!r}",
                expected="a state, such as a text or a member of an enumeration",
                came="it is None",
                fix='Name the state: in_state("open", …).',
            )
        added = tools_of(*tools)
        names = [each.name for each in added] or [""]  # a state without tools is the initial one too
        machine = (*self.machine, *((state, each, then) for each in names))
        tools = (*self.interaction.tools, *added)
        guided = self._with(tools=tools, withholds=partial(_of_other_states, machine))
        return replace(guided, machine=machine)


def _of_other_states(machine: Machine, uses: Sequence[ToolUse]) -> Collection[str]:
    """The names of the tools that the state after these calls does not offer."""
    state = machine[0][0]
    for each in uses:
        if not each.result.is_error:
            leads = (then for of, name, then in machine if (of, name) == (state, each.tool) and then is not None)
            state = next(leads, state)
    here = {name for of, name, _ in machine if of == state}
    return {name for _, name, _ in machine} - here
