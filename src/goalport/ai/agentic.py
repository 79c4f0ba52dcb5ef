"""Agentic tools: tools that ask a model, which calls other tools. User guide, section 3.9.4.

One is called like any other tool, by a model or by code, and works through the engine of whatever called it: what it
costs, its events and its spans are those of the action. Above: `process` says which action that is; below: `around`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, cast

from pydantic_core import to_json
from typing_extensions import Unpack

from goalport.ai.ai import LlmChanges, changed_llm
from goalport.ai.around import Around, around, within
from goalport.ai.engine import Request
from goalport.ai.interaction import Interaction
from goalport.errors import DeclarationError, ModelError, ToolError
from goalport.llm import LlmOptions, UserMessage
from goalport.tools import Parameter, Tool, ToolObject, ToolResult, tools_of
from goalport.tools.arguments import Arguments, listed_arguments

__all__ = ["AgenticTool"]

_DEEPEST: Final = 5
"""How many agentic tools may be called from within one another; what goes deeper calls itself."""
_NOTHING: Final[Mapping[str, object]] = {"type": "object", "properties": {}, "additionalProperties": False}
SystemPrompt = Callable[[Any], str]
"""From the `AgentProcess` to a text; the process is a matter of the floor above."""


@dataclass(frozen=True, slots=True)
class _Orchestration:
    """The handler of an agentic tool: a prompt of its own."""

    interaction: Interaction = field(default_factory=Interaction)
    creator: SystemPrompt | None = None
    taken: Arguments | None = None
    """How the arguments are read; None: they are taken as they come."""
    name: str = ""
    task: str = ""

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        here = around()
        if here.engine is None:
            return ToolResult.of_error(
                f"The tool {self.name!r} asks a model, and was called where none can be asked. "
                "Call it in an action, or offer it to a model: `ai.with_tools(…)`."
            )
        if problem := self._problem(here):
            return ToolResult.of_error(problem)
        given = arguments if self.taken is None else self.taken.bind(arguments)[1]
        artifacts: list[object] = []
        request = Request(
            interaction=replace(self.interaction, id=self.interaction.id or self.name, system_prompt=self._told(here)),
            messages=(UserMessage(to_json(given).decode()),),
            verb="generate_text",
            needs_tools=True,
            on_artifact=artifacts.append,
        )
        try:
            with within(replace(here, line=(*here.line, self.name))):
                text = cast("str", await here.engine().run(request))
        except (ModelError, ToolError) as error:
            return ToolResult.of_error(f"The tool {self.name!r} came to no result: {error}")
        return ToolResult(text, artifact=artifacts if len(artifacts) > 1 else next(iter(artifacts), None))

    def _problem(self, here: Around) -> str:
        """Why it cannot be called here; empty: it can."""
        if len(here.line) >= _DEEPEST:
            line = " → ".join((*here.line, self.name))
            return f"Tools that ask models call one another more than {_DEEPEST} deep: {line}. Answer without this one."
        if self.creator is not None and here.process is None:
            return f"The system prompt of the tool {self.name!r} is made of a process, and there is none here."
        return ""

    def _told(self, here: Around) -> str:
        """The system prompt."""
        if self.creator is not None:
            return self.creator(here.process)
        task = f"Work on this with your tools, and answer with the result: {self.task}"
        return self.interaction.system_prompt or task


@dataclass(frozen=True)
class AgenticTool(Tool):
    """A tool behind which a model calls others: `AgenticTool("math", "Solves problems").with_tools(add, multiply)`.

    Immutable: each `with_*` gives a copy. The inner model gets the arguments as JSON and the description as its task;
    its answer is the result. What the inner tools give beside texts is the artifact: itself, or a list of several.
    Where no model can be asked, without tools, and when the model fails, the result is an error.
    """

    input_schema: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    handler: Any = field(default_factory=_Orchestration)
    timed: bool = False
    parameters: tuple[Parameter, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.handler
        if isinstance(inner, _Orchestration) and (inner.name, inner.task) != (self.name, self.description):
            object.__setattr__(self, "handler", replace(inner, name=self.name, task=self.description))

    def with_parameters(self, *parameters: Parameter) -> Self:
        """Take these arguments too; a model that calls knows only of those. Raises `DeclarationError` for two alike."""
        every = (*self.parameters, *parameters)
        taken = listed_arguments(f"AgenticTool {self.name!r}", every)
        handler = replace(self._orchestration, taken=taken)
        return replace(self, parameters=every, input_schema=taken.schema({}), handler=handler)

    def with_tools(self, *tools: Tool | Callable[..., Any]) -> Self:
        """Work with these tools too; a function is one, marked with `@tool` or not."""
        return self._but(tools=(*self._interaction.tools, *tools_of(*tools)))

    def with_tool_objects(self, *objects: object) -> Self:
        """Work with the `@tool` methods of these objects too; an object without any is passed over."""
        found = tuple(each for value in objects for each in _tools_if_any(value))
        return self._but(tools=(*self._interaction.tools, *found))

    with_tool_object = with_tool_objects

    def with_tool_groups(self, *roles: str) -> Self:
        """Work with the tools of whichever groups play these roles when it is called."""
        return self._but(tool_groups=tuple(dict.fromkeys((*self._interaction.tool_groups, *roles))))

    with_tool_group = with_tool_groups

    def with_llm(self, llm: str | LlmOptions | None = None, /, **changes: Unpack[LlmChanges]) -> Self:
        """Ask this model, and so; as `Ai.with_llm`. Otherwise it is the default one."""
        return self._but(llm=changed_llm(self._interaction.llm, llm, changes))

    def with_system_prompt(self, text: str) -> Self:
        """Tell the inner model this in the place of the description."""
        return self._but(system_prompt=text).with_system_prompt_creator(None)

    def with_system_prompt_creator(self, creator: SystemPrompt | None) -> Self:
        """Tell the inner model what this makes of the `AgentProcess` at each call; outside of one the call fails.

        None: what `with_system_prompt` says, or else the description.
        """
        return replace(self, handler=replace(self._orchestration, creator=creator))

    @property
    def _orchestration(self) -> _Orchestration:
        if isinstance(self.handler, _Orchestration):
            return self.handler
        raise DeclarationError(
            f"AgenticTool {self.name!r}",
            expected="to be changed before layers are put around it",
            came="there is one",
            fix="Write `AgenticTool(…).with_tools(…)` first, and `with_layer` last.",
        )

    @property
    def _interaction(self) -> Interaction:
        return self._orchestration.interaction

    def _but(self, **changes: Any) -> Self:
        inner = self._orchestration
        return replace(self, handler=replace(inner, interaction=replace(inner.interaction, **changes)))


def _tools_if_any(value: object) -> tuple[Tool, ...]:
    is_source = isinstance(value, Tool | ToolObject) or callable(value) or hasattr(value, "__iter__")
    return tools_of(value) if is_source else Tool.safely_from_instance(value)
