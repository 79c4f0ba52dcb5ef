"""Agentic tools: tools that ask a model, which calls other tools. User guide, section 3.9.4.

An agentic tool is called like any other tool, by a model or by code. It asks through the engine of whatever called it
(`ToolContext`), so that its cost, its events and its spans count towards the same action. Above: `process` says which
action that is.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, cast

from pydantic_core import to_json

from goalport.base.errors import DeclarationError, ModelError, ToolError
from goalport.models.llm import LlmOptions, UserMessage
from goalport.runtime.ai.engine import ToolContext, tool_context, use_tool_context
from goalport.runtime.ai.interaction import Interaction, Request, ToolUse, chained_from, changed_llm, takes_options_of
from goalport.tools import Parameter, Tool, ToolObject, ToolResult, tools_of
from goalport.tools.arguments import Arguments, listed_arguments

_DEEPEST: Final = 5
"""How many agentic tools may call one another in a row; a longer chain is a tool that calls itself."""
_NOTHING: Final[Mapping[str, object]] = {"type": "object", "properties": {}, "additionalProperties": False}
SystemPrompt = Callable[[Any], str]
"""Makes a text of the `AgentProcess`, which belongs to a higher floor."""


@dataclass(frozen=True, slots=True)
class _Orchestration:
    """The handler of an agentic tool: it asks a model with settings of its own."""

    interaction: Interaction = field(default_factory=Interaction)
    creator: SystemPrompt | None = None
    signature: Arguments | None = None
    """Reads the arguments; None: they are taken as they come."""
    name: str = ""
    task: str = ""

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        here = tool_context()
        if here.engine is None:
            return ToolResult.of_error(
                f"The tool {self.name!r} asks a model, and was called where none can be asked. "
                "Call it in an action, or offer it to a model: `ai.with_tools(…)`."
            )
        if problem := self._problem(here):
            return ToolResult.of_error(problem)
        bound = arguments if self.signature is None else self.signature.bind(arguments)[1]
        artifacts: list[object] = []
        request = Request(
            interaction=replace(
                self.interaction, id=self.interaction.id or self.name, system_prompt=self._prompt(here)
            ),
            messages=(UserMessage(to_json(bound).decode()),),
            verb="generate_text",
            needs_tools=True,
            on_artifact=artifacts.append,
        )
        try:
            with use_tool_context(here._replace(callers=(*here.callers, self.name))):
                text = cast("str", await here.engine().run(request))
        except (ModelError, ToolError) as error:
            return ToolResult.of_error(f"The tool {self.name!r} came to no result: {error}")
        return ToolResult(text, artifact=artifacts if len(artifacts) > 1 else next(iter(artifacts), None))

    def _problem(self, here: ToolContext) -> str:
        """Why it cannot be called here; empty: it can."""
        if len(here.callers) >= _DEEPEST:
            line = " → ".join((*here.callers, self.name))
            return f"Tools that ask models call one another more than {_DEEPEST} deep: {line}. Answer without this one."
        if self.creator is not None and here.process is None:
            return f"The system prompt of the tool {self.name!r} is made of a process, and there is none here."
        return ""

    def _prompt(self, here: ToolContext) -> str:
        if self.creator is not None:
            return self.creator(here.process)
        task = f"Work on this with your tools, and answer with the result: {self.task}"
        return self.interaction.system_prompt or task


@dataclass(frozen=True)
class AgenticTool(Tool):
    """A tool in which a model calls other tools: `AgenticTool("math", "Solves problems").with_tools(add, multiply)`.

    It is immutable: each `with_*` gives a copy. The inner model gets the arguments as JSON and the description as its
    task, and its answer is the result. An object that an inner tool gives besides its text becomes the artifact of the
    result; several become a list. The result is an error where no model can be asked, when there are no inner tools,
    and when the model fails.
    """

    input_schema: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    handler: Any = field(default_factory=_Orchestration)
    timed: bool = False
    in_process: bool = True
    parameters: tuple[Parameter, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.handler
        if isinstance(inner, _Orchestration) and (inner.name, inner.task) != (self.name, self.description):
            object.__setattr__(self, "handler", replace(inner, name=self.name, task=self.description))

    def with_parameters(self, *parameters: Parameter) -> Self:
        """Take these arguments too. A calling model knows of no others. Raises `DeclarationError` for two alike."""
        every = (*self.parameters, *parameters)
        signature = listed_arguments(f"AgenticTool {self.name!r}", every)
        handler = replace(self._orchestration, signature=signature)
        return replace(self, parameters=every, input_schema=signature.schema({}), handler=handler)

    def with_tools(self, *tools: Tool | Callable[..., Any]) -> Self:
        """Let the inner model use these tools too. A function is a tool, with or without `@tool`."""
        return self._but(tools=(*self._interaction.tools, *tools_of(*tools)))

    def with_tool_objects(self, *objects: object) -> Self:
        """Let the inner model use the `@tool` methods of these objects too. An object without any is ignored."""
        found: list[Tool] = []
        for value in objects:
            is_source = isinstance(value, Tool | ToolObject) or callable(value) or hasattr(value, "__iter__")
            found += tools_of(value) if is_source else Tool.safely_from_instance(value)
        return self._but(tools=(*self._interaction.tools, *found))

    with_tool_object = with_tool_objects

    def with_tool_chaining_from(self, *kinds: type, select: Callable[[Any, Tool], bool] | None = None) -> Self:
        """Let the inner model use the tools of objects that tools return, as `Ai.with_tool_chaining_from` does."""
        return self._but(chaining=(*self._interaction.chaining, *chained_from(kinds, select)))

    def with_withheld_tools(self, withholds: Callable[[Sequence[ToolUse]], Collection[str]] | None) -> Self:
        """Do not offer the inner model the tools of these names for now; a function gives them by the calls so far."""
        return self._but(withholds=withholds)

    def with_tool_groups(self, *roles: str) -> Self:
        """Let the inner model use the tools of the groups that have these roles at the time of the call."""
        return self._but(tool_groups=tuple(dict.fromkeys((*self._interaction.tool_groups, *roles))))

    with_tool_group = with_tool_groups

    @takes_options_of(LlmOptions)
    def with_llm(self, llm: str | LlmOptions | None = None, /, **changes: Any) -> Self:
        """Choose the inner model and its options, as `Ai.with_llm` does; without this it is the default model."""
        return self._but(llm=changed_llm(self._interaction.llm, llm, changes))

    def with_system_prompt(self, text: str) -> Self:
        """Give the inner model this system prompt instead of the description."""
        return self._but(system_prompt=text).with_system_prompt_creator(None)

    def with_system_prompt_creator(self, creator: SystemPrompt | None) -> Self:
        """Give the inner model the system prompt that a function makes of the `AgentProcess` at each call.

        Outside of a process the call fails. None: the system prompt of `with_system_prompt`, or else the description.
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
