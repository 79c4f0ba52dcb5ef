"""A tool: a name, a description and a schema for a model, and a handler that is called; and objects with tools.

A tool knows neither who publishes it nor which model calls it. Functions, upstream servers and agents are called by
the same kind of handler. A tool object has `@tool` methods, which become tools with a naming and a filter.
"""

import functools
import inspect
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol, Self, TypeVar, cast, get_args, overload

from goalport.base.caller import Caller, require_scopes
from goalport.base.errors import BadInput, DeclarationError, Declined, Signal, ToolError, leaves, signal_in
from goalport.base.events import SourcesShown
from goalport.base.introspection import Origin, read_docstring
from goalport.base.secrecy import hide
from goalport.base.words import class_name, corrections, error_summary, excerpt
from goalport.tools.functions import (
    ContextValues,
    FunctionHandler,
    Parameter,
    listed_arguments,
    needs_process,
    read_arguments,
)
from goalport.tools.naming import Naming, composed, identity, prefixed
from goalport.tools.results import ToolResult, read_output
from goalport.tools.schemas import coerce_numbers, schema_problems

F = TypeVar("F", bound=Callable[..., Any])
_ATTRIBUTE = "__goalport_tool__"


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolMark:
    """The settings that `@tool` gave to a function."""

    name: str = ""
    title: str = ""
    description: str = ""
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    return_direct: bool = False
    export: bool = False
    scopes: Sequence[str] | None = None

    def __post_init__(self) -> None:
        require_scopes("scopes", self.scopes)


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    return_direct: bool = False,
    export: bool = False,
    scopes: Sequence[str] | None = None,
) -> Callable[[F], F]: ...
def tool(function: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
    """Mark a function or method as a tool that a model may call; its signature is the schema.

    `name` defaults to the function's and `description` to its docstring; `title` is for people. `read_only`,
    `destructive`, `idempotent` and `open_world` are hints for the host that asks its user before a call.
    `return_direct`: the result goes to the user and not back to the model. `export`: it is published over MCP, if the
    function, or an object with the method, is at the top level of a module. `scopes`: a client needs all of them for a
    call; by default it needs the scope to read if the tool is `read_only`, else the scope to write.
    """
    mark = ToolMark(**settings)

    def marked(function: Any) -> Any:
        is_function = callable(function) or hasattr(function, "__func__")
        if not is_function or isinstance(function, type):
            raise TypeError(f"@tool marks functions and methods, but came to {function!r}. Mark the function itself.")
        setattr(function, _ATTRIBUTE, mark)
        return function

    return marked if function is None else marked(function)


def mark_of(function: object) -> ToolMark | None:
    """The mark on a function, also on one inside a staticmethod, classmethod or bound method."""
    for marked in (function, getattr(function, "__func__", None)):
        mark = getattr(marked, _ATTRIBUTE, None)
        if isinstance(mark, ToolMark):
            return mark
    return None


_log = logging.getLogger(__name__)
_MESSAGE_LIMIT = 2_000

Approval = Literal["never", "always", "destructive"]
"""Which calls need a person's approval: none, all, or calls of tools that may be destructive by their hints."""
Layer = Callable[["Tool", Mapping[str, object]], Awaitable[ToolResult]]
"""Wraps the calls of a tool: it receives the wrapped tool and the arguments, and decides whether to call the tool."""


class CallSite(Protocol):
    """The context of tool calls: an action, which records results and asks people for approval, or a direct call."""

    @property
    def caller(self) -> Caller:
        """The caller on whose behalf tools are called."""
        ...

    def has_result(self, tool: "Tool", arguments: Mapping[str, object], /) -> bool:
        """Whether the result of the next call with these arguments is recorded already: the tool will not run."""
        ...

    async def call(self, tool: "Tool", arguments: Mapping[str, object], /) -> ToolResult:
        """Return the recorded result of the call, or else call `Tool.run`."""
        ...

    async def call_once(self, tool: "Tool", /) -> ToolResult:
        """Return the result of calling a tool without arguments; after an error an action does not call it again."""
        ...

    def emit(self, event: SourcesShown, /) -> None:
        """Send an event to the listeners, with the name of the action if there is one."""
        ...

    def before_request(self) -> None:
        """Called before a tool makes a request to a model. Raises the `Signal` that ends the action if it must not.

        It must not when the action's process is about to end, or has spent its budget.
        """
        ...

    def spend(self, model: str, tokens: int, cost: float, seconds: float, /) -> None:
        """Count one request that a tool made to a model: its input tokens, US dollars and seconds."""
        ...


CALL_SITE: Final[ContextVar[CallSite | None]] = ContextVar("goalport_call_site", default=None)
"""The current call site; None: tools are called outside of actions, without a caller."""


@dataclass(frozen=True)
class Tool:
    """A tool that a model may call, made by `Tool.of` of a function, or by `from_instance` of `@tool` methods."""

    name: str
    description: str
    input_schema: Mapping[str, object]
    handler: Callable[[Mapping[str, object]], Awaitable[ToolResult]]
    title: str = ""
    """A name for people."""
    output_schema: Mapping[str, object] | None = None
    """The JSON Schema of `ToolResult.structured`."""
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    return_direct: bool = False
    """The result ends a model's loop instead of going back to the model."""
    checks_arguments: bool = False
    """The handler reports bad arguments itself; otherwise they are checked against `input_schema` before the call."""
    once: bool = False
    """A model may call it successfully only once in a conversation; then it is no longer offered."""
    approval: Approval = "never"
    """Which calls need a person's approval. It is asked for in actions; outside of actions such a call is refused."""
    confirmation: Callable[[Mapping[str, object]], str] | None = None
    """Makes the question for approval from the arguments; None: a standard question with the arguments."""
    asks_people: bool = False
    """Whether the tool itself may ask a person during a call."""
    server: str = ""
    """The name of the tool's upstream server, which may ask a person during a call; empty for other tools."""
    withheld: Callable[[], bool] | None = None
    """Called before each turn of a model: True hides the tool from it. None: the tool is always offered."""
    timed: bool = True
    """Whether the time limit for tools applies to a model's calls; tools that ask models have other limits."""
    scopes: Sequence[str] | None = None
    """The scopes that a client needs to call the published tool; None: to read if it is `read_only`, else to write."""
    in_process: bool = False
    """Whether it works only in a process: then each call by a client of the published tool starts one."""

    def __post_init__(self) -> None:
        name = cast("object", self.name)  # a naming is any function, and may return anything
        if not isinstance(name, str) or not name.strip():
            raise DeclarationError(
                "Tool",
                expected="a name for the tool",
                came=f"it is {self.name!r}",
                fix="Give one, and see that the naming keeps it.",
            )
        require_scopes("scopes", self.scopes)
        if self.approval not in get_args(Approval):
            # With any other value, nobody would be asked for approval.
            raise DeclarationError(
                f"Tool {self.name!r}",
                expected="approval to be never, always or destructive",
                came=f"it is {self.approval!r}",
                fix="Write one of the three.",
            )

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Call the tool. Invalid arguments and failures become results with `is_error`, in words for the model.

        So do calls that a person does not approve. In an action that is run again, the recorded result is returned. A
        `Signal` is meant for the process that makes the call and is raised, also if a task group of the tool has put it
        into an exception group.
        """
        site = CALL_SITE.get()
        if site is not None:
            return await self._answered(_called_from(site, self, arguments))
        return await self.run_unattended(arguments)

    async def run_unattended(self, arguments: Mapping[str, object]) -> ToolResult:
        """As `call`, but nobody can be asked: a call that a person has to approve becomes an error result."""
        if self.needs_approval:
            return ToolResult.of_error(
                f"A person has to agree to calls of {self.name!r}, and nobody can be asked here."
            )
        return await self.run(arguments)

    async def run(self, arguments: Mapping[str, object]) -> ToolResult:
        """As `call`, but without asking for approval and without recording the result."""
        return await self._answered(self.run_raising(arguments))

    async def run_raising(self, arguments: Mapping[str, object]) -> ToolResult:
        """As `run`, but exceptions of the function are raised, and `BadInput` for invalid arguments."""
        return await self.handler(arguments if self.checks_arguments else self.checked(arguments))

    async def _answered(self, work: Awaitable[ToolResult]) -> ToolResult:
        try:
            return await work
        except (BadInput, Declined, ToolError) as error:
            return ToolResult.of_error(hide(str(error)))
        except Signal:
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if signal := signal_in(error):
                raise signal from error
            _log.warning("Tool %s failed", self.name, exc_info=error)
            summary = excerpt(hide("; ".join(map(error_summary, leaves(error)))), _MESSAGE_LIMIT)
            return ToolResult(f"The tool {self.name!r} failed: {summary}", is_error=True, error=error)

    def check(self, arguments: Mapping[str, object]) -> None:
        """Raise `BadInput` for invalid arguments, as far as this can be known before a call."""
        if not self.checks_arguments:
            self.checked(arguments)
        elif (check := getattr(self.handler, "check", None)) is not None:
            check(arguments)

    @property
    def needs_approval(self) -> bool:
        """Whether a person has to approve a model's call first.

        With `approval="destructive"` this is so unless `read_only` is True or `destructive` is False. For upstream
        tools these hints are claims of their server.
        """
        harmless = self.read_only is True or self.destructive is False
        return self.approval == "always" or (self.approval == "destructive" and not harmless)

    @property
    def may_ask(self) -> bool:
        """Whether a person may be asked before or during a call."""
        return self.asks_people or self.needs_approval

    def with_name(self, name: str) -> Self:
        """A copy with another name. If the handler has a method `renamed`, it is called with the name too."""
        renamed = getattr(self.handler, "renamed", None)
        return replace(self, name=name, handler=self.handler if renamed is None else renamed(name))

    def with_description(self, description: str) -> Self:
        return replace(self, description=description)

    def with_note(self, note: str) -> Self:
        """A copy whose description has the note as one more paragraph."""
        return replace(self, description=f"{self.description}\n\n{note}".strip())

    def only_once(self) -> Self:
        """A copy that a model may call successfully only once in a conversation."""
        return replace(self, once=True)

    def with_approval(self, approval: Approval) -> Self:
        return replace(self, approval=approval)

    def with_layer(self, layer: Layer) -> Self:
        """A copy whose calls go through `layer`; of several layers, the one that was added last is the outermost."""
        inside = replace(self, approval="never", server="")  # the outer tool already asks for approval
        return replace(self, handler=_Layered(inside, layer), checks_arguments=True)

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        *,
        name: str = "",
        description: str = "",
        parameters: Iterable[Parameter] | None = None,
        input_schema: Mapping[str, object] | None = None,
        return_direct: bool | None = None,
    ) -> "Tool":
        """Make a tool of a function, marked with `@tool` or not; arguments of this method override the mark.

        The signature defines the arguments. If `parameters` or `input_schema` (JSON Schema of an object) is given, it
        defines them instead, and the function takes one mapping of all arguments. Raises `DeclarationError`.
        """
        if isinstance(function, type):
            raise _not_a_class(function)
        mark = mark_of(function) or ToolMark()
        own_name = getattr(function, "__name__", "").replace("<lambda>", "")
        chosen = name or mark.name or own_name
        if not chosen:
            raise Origin(function).error(
                expected="a name for the tool",
                came="the function has none",
                fix="Write `Tool.of(function, name=…)`.",
            )
        if input_schema is not None and (parameters is not None or input_schema.get("type") != "object"):
            kind = f"the schema is of type {input_schema.get('type')!r}"
            raise Origin(function).error(
                expected="parameters, or a JSON Schema of an object",
                came=kind if parameters is None else "there are both",
                fix='Write {"type": "object", "properties": {…}}.' if parameters is None else "Leave one out.",
            )
        arguments = None
        if input_schema is None:
            listed = parameters is not None
            arguments = listed_arguments(str(Origin(function)), parameters) if listed else read_arguments(function)
        output = read_output(function)
        takes_mapping = arguments is None or parameters is not None
        slots = arguments.parameters.values() if arguments is not None and not takes_mapping else ()
        described, of_parameters = read_docstring(Origin(function).docstring, [each.name for each in slots])
        return cls(
            name=chosen,
            description=description or mark.description or described or chosen.replace("_", " "),
            input_schema=arguments.schema(of_parameters) if arguments else dict(input_schema or {}),
            handler=FunctionHandler(function, arguments, output, takes_mapping),
            title=mark.title,
            output_schema=output.schema,
            read_only=mark.read_only,
            destructive=mark.destructive,
            idempotent=mark.idempotent,
            open_world=mark.open_world,
            return_direct=mark.return_direct if return_direct is None else return_direct,
            scopes=mark.scopes,
            checks_arguments=arguments is not None,
            in_process=any(each.injection for each in slots) or needs_process(function),
        )

    @classmethod
    def from_instance(cls, instance: object) -> "tuple[Tool, ...]":
        """The `@tool` methods of an object as tools, in source order. Raises `DeclarationError` when there are none."""
        if found := cls.safely_from_instance(instance):
            return found
        raise DeclarationError(
            class_name(type(instance)),
            expected="methods that are marked with @tool",
            came="there is none",
            fix="Put @tool above the methods that a model may call.",
        )

    def checked(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments converted to the schema's types, such as numbers that were sent as text. Raises `BadInput`."""
        problems = schema_problems(self.input_schema, arguments)
        if not problems:
            return arguments
        coerced = coerce_numbers(self.input_schema, arguments)
        if schema_problems(self.input_schema, coerced):
            raise BadInput(corrections(problems))
        return coerced

    @classmethod
    def safely_from_instance(cls, instance: object) -> "tuple[Tool, ...]":
        """The `@tool` methods of any object as tools; the tuple may be empty."""
        if isinstance(instance, type):
            raise _not_a_class(instance)
        return tuple(cls.of(getattr(instance, name)) for name in _marked_methods(type(instance)))


def exported_methods(kind: type) -> Iterator[str]:
    """The names of methods marked with `@tool(export=True)`; an override inherits the mark of the base class."""
    for name in _marked_methods(kind):
        marks = (mark_of(vars(base).get(name)) for base in kind.__mro__)
        if next(each.export for each in marks if each is not None):
            yield name


def calling_from(site: CallSite | None) -> ContextValues:
    """A block in which `site` is the current call site; None: outside of actions, without a caller."""
    return ContextValues((CALL_SITE, site))


async def _called_from(site: CallSite, tool: Tool, arguments: Mapping[str, object]) -> ToolResult:
    if tool.needs_approval:
        tool.check(arguments)  # do not ask a person about an invalid call
    return await site.call(tool, arguments)


@dataclass(frozen=True, slots=True)
class _Layered:
    """The handler of a tool with a layer around it."""

    tool: Tool
    layer: Layer

    def renamed(self, name: str) -> "_Layered":
        return replace(self, tool=self.tool.with_name(name))

    def check(self, arguments: Mapping[str, object]) -> None:
        self.tool.check(arguments)

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        return await self.layer(self.tool, arguments)


def _marked_methods(kind: type) -> Iterator[str]:
    """The names of marked methods, those of base classes first. A mark on a base's method also marks its overrides."""
    marked = dict.fromkeys(
        name for base in reversed(kind.__mro__) for name, value in vars(base).items() if mark_of(value) is not None
    )
    return (name for name in marked if callable(getattr(kind, name, None)))


def _not_a_class(kind: type) -> DeclarationError:
    return DeclarationError(
        class_name(kind),
        expected="an object with methods, or a function",
        came="it is a class",
        fix=f"Make an object of it: `{kind.__name__}(…)`.",
    )


def with_confirmation(tool: Tool, message: str | Callable[[Mapping[str, object]], str]) -> Tool:
    """A copy of a tool that asks a person for a yes before each call; after a no, or with no answer, it does not run.

    `message` is the question or makes it from the arguments: `with_confirmation(pay, lambda given: f"Pay {given}?")`.
    The process that calls the tool waits for the answer. After a no the model is told that the call was refused.
    """
    words: Callable[[Mapping[str, object]], str] = message if callable(message) else lambda _: message
    return replace(tool, approval="always", confirmation=words)


def everything(_: str) -> bool:
    """The filter that keeps every tool."""
    return True


@dataclass(frozen=True, init=False)
class ToolObject:
    """Tools of one or more objects: `ToolObject(Calculator(), naming=prefixed("calc_"), filter=lambda name: …)`.

    An object is anything with `@tool` methods, a function, a tool, or another tool object. The filter sees the original
    names of the tools; the naming is applied to the tools that it keeps, after the namings of inner tool objects.
    """

    objects: tuple[object, ...]
    naming: Naming
    filter: Callable[[str], bool]

    def __init__(self, *objects: object, naming: Naming = identity, filter: Callable[[str], bool] = everything) -> None:
        for each in objects:
            _refuse_collection(each)
        object.__setattr__(self, "objects", objects)
        object.__setattr__(self, "naming", naming)
        object.__setattr__(self, "filter", filter)

    def tools(self) -> tuple[Tool, ...]:
        """The tools, in source order; of several with the same name only the first."""
        return distinct(tool for _, tool in named_tools(self.objects, self.naming, self.filter))

    def with_prefix(self, prefix: str) -> "ToolObject":
        """A copy that puts `prefix` in front of all names, after the naming is applied."""
        return self.with_naming(prefixed(prefix))

    def with_naming(self, naming: Naming) -> "ToolObject":
        """A copy with one more naming, applied after the existing ones."""
        return ToolObject(*self.objects, naming=composed(self.naming, naming), filter=self.filter)

    def with_filter(self, keep: Callable[[str], bool]) -> "ToolObject":
        """A copy with one more filter: it keeps the tools whose original names pass both."""
        before = self.filter
        return ToolObject(*self.objects, naming=self.naming, filter=lambda name: before(name) and keep(name))


def named_tools(objects: Iterable[object], naming: Naming, keep: Callable[[str], bool]) -> list[tuple[str, Tool]]:
    """Pairs of the original name and the renamed tool, for tools that the filter keeps, also if new names clash."""
    found: list[tuple[str, Tool]] = []
    for each in objects:
        if isinstance(each, ToolObject):
            inner = named_tools(each.objects, each.naming, each.filter)
        else:
            inner = [(made.name, made) for made in _tools_of_one(each)]
        found += [(own, made.with_name(naming(made.name))) for own, made in inner if keep(own)]
    return found


def tools_of(*objects: object) -> tuple[Tool, ...]:
    """The tools of functions, tool objects, tools and objects with `@tool` methods, in order."""
    return tuple(found for each in objects for found in _tools_of_one(each))


def distinct(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """The tools; of several with the same name only the first."""
    found: dict[str, Tool] = {}
    for each in tools:
        found.setdefault(each.name, each)
    return tuple(found.values())


def duplicate_names(tools: Iterable[Tool]) -> tuple[str, ...]:
    """The names that more than one of the tools has."""
    counts = Counter(each.name for each in tools)
    return tuple(name for name, count in counts.items() if count > 1)


def _tools_of_one(value: object) -> tuple[Tool, ...]:
    if isinstance(value, Tool):
        return (value,)
    if isinstance(value, ToolObject):
        return value.tools()
    if inspect.isroutine(value) or isinstance(value, functools.partial):
        return (Tool.of(cast("Callable[..., Any]", value)),)
    _refuse_collection(value)
    return Tool.from_instance(value)


def _refuse_collection(value: object) -> None:
    """Refuse a list of objects where one object is expected; an iterable object that has tools is accepted."""
    if isinstance(value, type | Tool | ToolObject) or not hasattr(type(value), "__iter__"):
        return
    if Tool.safely_from_instance(value):
        return
    raise DeclarationError(
        "ToolObject",
        expected="objects with @tool methods, one by one",
        came=f"there is a {type(value).__name__} of them",
        fix="Unpack it: `ToolObject(*objects)`.",
    )
