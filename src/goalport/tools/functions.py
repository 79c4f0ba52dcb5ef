"""Functions as tools: the schema of their arguments, binding of arguments to parameters, and safe calls.

The signature is read once, and pydantic validates arguments. Some parameters are not filled by the model but injected:
the current process, context or another current object. A type is injected if it has a classmethod
`__goalport_current__`, which returns the current object or raises a `GoalportError`; or if its `Annotated` metadata has
a method `__goalport_provided__`, which takes the type. So packages above can add types that this package does not know.

An exception of a function ends only the call. A `BaseException` such as SystemExit would end the event loop, and with
it the server, so it is turned into an error. A thread cannot be stopped, so an abandoned thread counts against the
limit of threads until it ends.
"""

import asyncio
import inspect
import logging
import math
from asyncio import CancelledError, current_task
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from threading import Lock
from types import CodeType, FunctionType, NoneType, TracebackType
from typing import Annotated, Any, Final, Generic, TypeVar, cast, get_args, get_origin

from anyio import CapacityLimiter, WouldBlock, to_thread
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo

from goalport.agents.blackboard import alternatives
from goalport.base.errors import BadInput, DeclarationError, GoalportError, NonRetryable, ToolError, leaves
from goalport.base.introspection import Origin
from goalport.base.secrecy import hide
from goalport.base.words import corrections, first_line, validation_problems, with_article
from goalport.tools.results import Output, ToolResult
from goalport.tools.schemas import UNREADABLE, PlainSchema, why_not_json

CURRENT = "__goalport_current__"
"""The attribute of types and functions that work only in a process."""
PREPARE: Final[ContextVar[Callable[[Sequence[type], object], Awaitable[None]] | None]] = ContextVar(
    "goalport_prepare", default=None
)
"""Starts the services of these types before a tool with such parameters is called; the second argument is unused."""
_PROVIDED = "__goalport_provided__"


@dataclass(frozen=True, slots=True)
class Injection:
    """How one injected parameter is filled at each call."""

    kind: type
    is_optional: bool
    """Whether None is injected when there is no current object."""
    current: Callable[[], object]

    def value(self) -> object:
        """Return the current object. Raises `ToolError` when there is none and the parameter is not optional."""
        try:
            found = self.current()
        except GoalportError as error:
            if self.is_optional:
                return None
            raise ToolError(f"The tool needs {with_article(self.kind)}: {error}") from error
        if found is None and not self.is_optional:
            raise ToolError(f"The tool needs {with_article(self.kind)}, and it was called where there is none.")
        return found


def injection_of(hint: Any) -> Injection | None:
    """The injection of a parameter with this annotation; None when the caller fills it."""
    marked, *markers = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    members = alternatives(marked)
    kinds = [each for each in members if each is not NoneType]
    if len(kinds) != 1 or not isinstance(kinds[0], type):
        return None
    kind, provided = kinds[0], next((found for each in markers if (found := getattr(each, _PROVIDED, None))), None)
    current = getattr(kind, CURRENT, None) if provided is None else partial(provided, kind)
    return None if current is None else Injection(kind, len(kinds) < len(members), current)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool whose parameters are listed: `Tool.of(…, parameters=[Parameter("a", int, "The first")])`.

    `type` is any type that JSON can express; what a model sends is converted to it.
    """

    name: str
    type: Any = str
    description: str = ""
    required: bool = True
    default: object = None
    """The value of an optional parameter that was not sent; None: the mapping of arguments has no such key."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parameters of one function."""

    model: type[BaseModel]
    """One field per parameter, under a generated name, since pydantic does not allow every name for a field."""
    parameters: Mapping[str, "_Slot"]
    """The parameters by field name, in the order of the signature, including those that are injected."""
    names: tuple[str, ...]
    """The names of the parameters in the schema, without injected ones."""
    injected: tuple[type, ...]
    """The types of the injected parameters."""

    def schema(self, descriptions: Mapping[str, str]) -> dict[str, object]:
        """The JSON Schema of the arguments. `descriptions`, by parameter, are used if an annotation has none."""
        found = self.model.model_json_schema(schema_generator=PlainSchema)
        properties = found.get("properties", {})
        for field, slot in self.parameters.items():
            if slot.injection is None and slot.name in descriptions:
                described = properties[_wire_name(self.model.model_fields[field])]
                described.setdefault("description", descriptions[slot.name])
        required = {"required": found["required"]} if "required" in found else {}
        definitions = {"$defs": found["$defs"]} if "$defs" in found else {}
        return {"type": "object", "properties": properties, **required, "additionalProperties": False, **definitions}

    def check(self, arguments: Mapping[str, object]) -> BaseModel:
        """Return the validated arguments. Raises `BadInput`, with a line for each field that is wrong."""
        try:
            return self.model.model_validate(dict(arguments))
        except ValidationError as error:
            raise BadInput(corrections(validation_problems(error, arguments, self.names))) from None

    def bind(self, arguments: Mapping[str, object]) -> tuple[list[object], dict[str, object]]:
        """Return the positional and the named arguments for the function. Raises `BadInput`, as `check` does."""
        filled = self.check(arguments)
        positional: list[object] = []
        named: dict[str, object] = {}
        for field, slot in self.parameters.items():
            value = slot.injection.value() if slot.injection else getattr(filled, field)
            given = slot.injection or isinstance(slot.default, FieldInfo) or field in filled.model_fields_set
            if slot.is_positional:
                positional.append(value if given else slot.default)
            elif given:
                named[slot.name] = value
        return positional, named


@dataclass(frozen=True, slots=True)
class _Slot:
    """One parameter of the function, and how its argument is passed."""

    name: str
    default: object = inspect.Parameter.empty
    is_positional: bool = False
    injection: Injection | None = None
    """How the parameter is injected; None when the caller fills it."""


def read_arguments(function: Callable[..., object]) -> Arguments:
    """Read the parameters of a function. Raises `DeclarationError`, which names a parameter that has no schema."""
    hints = Origin(function).hints()
    slots: list[_Slot] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise Origin(function).error(
                expected="parameters that are named one by one, so that a model can be told what to send",
                came=f"there is {parameter}",
                fix="Name each argument, or take one parameter that is a list or a dict.",
            )
        if parameter.name not in hints:
            raise Origin(function).error(
                expected=f"a type for the parameter {parameter.name!r}",
                came="there is none",
                fix="Make the tool of an instance (`Tool.from_instance(Calculator())`), not of the class."
                if parameter.name == "self"
                else f"Write `{parameter.name}: float`, or whatever type it has.",
            )
        positional = parameter.kind is parameter.POSITIONAL_ONLY
        slots.append(_Slot(parameter.name, parameter.default, positional, injection_of(hints[parameter.name])))
    return _arguments(str(Origin(function)), slots, hints)


def listed_arguments(where: str, parameters: Iterable[Parameter]) -> Arguments:
    """The arguments of a tool whose parameters are listed. Raises `DeclarationError`, as `read_arguments` does."""
    slots: list[_Slot] = []
    hints: dict[str, Any] = {}
    for each in parameters:
        if each.name in hints:
            raise DeclarationError(
                where,
                expected="parameters with different names",
                came=f"there are two called {each.name!r}",
                fix="Rename one.",
            )
        kind: Any = each.type if each.required or each.default is not None else each.type | None
        hints[each.name] = Annotated[kind, Field(description=each.description)] if each.description else kind
        default = None if each.default is None else Field(default=each.default)
        slots.append(_Slot(each.name, inspect.Parameter.empty if each.required else default))
    return _arguments(where, slots, hints)


def _arguments(where: str, slots: list[_Slot], hints: Mapping[str, Any]) -> Arguments:
    by_field = {f"goalport_argument_{number}": slot for number, slot in enumerate(slots)}
    seen = {field: slot for field, slot in by_field.items() if slot.injection is None}
    fields: dict[str, Any] = {
        field: (hints[slot.name], ... if slot.default is inspect.Parameter.empty else slot.default)
        for field, slot in seen.items()
    }
    aliases = {field: slot.name for field, slot in seen.items()}
    # Dataclasses among the types inherit this configuration, so the alias generator also gets their fields, and must
    # keep those names.
    config = ConfigDict(extra="forbid", alias_generator=lambda field: aliases.get(field, field))
    try:
        model = create_model("Arguments", __config__=config, **fields)
        model.model_json_schema(schema_generator=PlainSchema)
    except UNREADABLE as error:
        for name in aliases.values():
            try:
                TypeAdapter(hints[name]).json_schema(schema_generator=PlainSchema)
            except UNREADABLE as reason:
                raise DeclarationError(
                    where,
                    expected=f"a type for the parameter {name!r} that JSON can express",
                    came=f"it is {hints[name]!r} ({why_not_json(hints[name], reason)})",
                    fix="Use numbers, strings, enums, lists, dicts, dataclasses, TypedDicts or pydantic models, or for"
                    " a service `Annotated[…, Provided]`.",
                ) from error
        raise DeclarationError(
            where,
            expected="a signature that a JSON Schema can describe",
            came=first_line(str(error)),
            fix="Simplify the annotations or defaults.",
        ) from error
    names = tuple(map(_wire_name, model.model_fields.values()))
    return Arguments(model, by_field, names, tuple(each.injection.kind for each in slots if each.injection is not None))


def _wire_name(field: FieldInfo) -> str:
    return field.validation_alias if isinstance(field.validation_alias, str) else field.alias or ""


_log = logging.getLogger(__name__)


class Interruption(BaseException):
    """A tool call cannot go on until something happens outside of it, such as the answer of a person.

    It is not a failure and no subclass of `Exception`, so that users' code does not catch it by accident. Tools that
    run at the same time finish first; then it is raised to the caller, which calls the tool again later.
    """


class Contained:
    """A block that lets through only `Exception`, `Interruption` and the cancellation of its own task."""

    __slots__ = ("_task",)

    def __enter__(self) -> None:
        self._task = current_task()

    def __exit__(self, _kind: object, escape: BaseException | None, _traceback: TracebackType | None) -> None:
        if escape is None or isinstance(escape, (Exception, Interruption)):
            return
        task = self._task
        if isinstance(escape, CancelledError):
            if task is None or not task.cancelling():
                words = "Something that it waited for was cancelled. Catch that where it is awaited."
                raise NonRetryable(words) from None
            return
        inner = leaves(cast("BaseException", escape)) if isinstance(escape, BaseExceptionGroup) else ()
        if any(isinstance(each, (Interruption, CancelledError)) for each in inner):
            return  # a task group has raised this group, and the event loop needs it
        try:
            is_closing = current_task() is not task
        except RuntimeError:
            is_closing = True
        if is_closing:
            return  # a coroutine that is being closed must not be stopped
        kind: type[BaseException] = type(cast("BaseException", escape))
        words = f"It raised {kind.__name__}, which is no Exception and is for ending programs."
        if issubclass(kind, SystemExit):
            words = "It tried to exit the program (SystemExit)."
        raise NonRetryable(f"{words} Raise an error instead.") from escape


class ContextValues:
    """A block that sets several context variables, which have defaults. One block per variable takes twice as long.

    A variable that has the value already is not set, since a look takes a tenth of the time. Each action enters it.
    """

    __slots__ = ("_tokens", "_values")

    def __init__(self, *values: tuple[ContextVar[Any], object]) -> None:
        self._values = values

    def __enter__(self) -> None:
        self._tokens = [
            (variable, variable.set(value)) for variable, value in self._values if variable.get() is not value
        ]

    def __exit__(self, *_: object) -> None:
        for variable, token in self._tokens:
            variable.reset(token)


T = TypeVar("T")


async def in_thread(
    function: Callable[[], T], limiter: CapacityLimiter, when_full: Callable[[], None] | None = None
) -> T:
    """Call a function in a worker thread. If the wait is cancelled, the thread keeps its limiter token until it ends.

    `when_full` is called if the limiter has no free token, before the wait for one.
    """
    token = _ThreadToken(function, limiter)
    try:
        limiter.acquire_on_behalf_of_nowait(token)
    except WouldBlock:
        if when_full is not None:
            when_full()
        await limiter.acquire_on_behalf_of(token)
    try:
        made = await to_thread.run_sync(token.call, abandon_on_cancel=True, limiter=CapacityLimiter(math.inf))
    finally:
        token.leave()
    result, escape = made
    if escape is not None:
        raise escape
    return cast("T", result)


class _ThreadToken(Generic[T]):
    """A borrowed token of a limiter, released when both the function and the wait for it have ended."""

    def __init__(self, function: Callable[[], T], limiter: CapacityLimiter) -> None:
        self._function = function
        self._limiter = limiter
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._runs = self._left = False

    def call(self) -> tuple[T | None, BaseException | None]:
        """Call the function, in its thread, unless the wait for it was cancelled before.

        An exception that is no `Exception` is returned, since an event loop would treat a raised one as its task's end.
        """
        with self._lock:
            if self._left:
                raise RuntimeError("Nobody waits for this any more.")
            self._runs = True
        try:
            return self._function(), None
        except BaseException as error:
            if isinstance(error, Exception):
                raise
            return None, error
        finally:
            with self._lock:
                self._runs = False
                abandoned = self._left
            if abandoned:
                with suppress(RuntimeError):  # the event loop is closed, and its limiter is gone with it
                    self._loop.call_soon_threadsafe(self._limiter.release_on_behalf_of, self)

    def leave(self) -> None:
        """Note on the event loop that nobody waits for the result any more."""
        with self._lock:
            self._left = True
            running = self._runs
        if not running:
            self._limiter.release_on_behalf_of(self)


@dataclass(frozen=True, slots=True)
class FunctionHandler:
    """The handler of a tool that is a function."""

    function: Callable[..., Any]
    arguments: Arguments | None
    """How arguments are validated; None: they are passed as they were sent."""
    output: Output
    takes_mapping: bool = False
    """Whether the function takes all arguments as one mapping."""

    def check(self, arguments: Mapping[str, object]) -> None:
        """Raises `BadInput` for arguments that the function cannot be called with."""
        if self.arguments is not None:
            self.arguments.check(arguments)

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        if (expected := self.arguments) is None:
            call = partial(self.function, arguments)
        else:
            if expected.injected and (prepare := PREPARE.get()) is not None:
                await prepare(expected.injected, None)
            positional, named = expected.bind(arguments)
            call = partial(self.function, named) if self.takes_mapping else partial(self.function, *positional, **named)
        inner = self.function
        while isinstance(inner, partial):
            inner = cast("Callable[..., Any]", inner.func)
        is_async = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004
        with Contained():
            value = call() if is_async else await in_thread(call, to_thread.current_default_thread_limiter())
            value = await value if inspect.isawaitable(value) else cast("object", value)
        if isinstance(value, ToolResult) and value.cause is not None:
            _log.warning("A tool failed: %s", hide(value.text), exc_info=value.cause)
        return self.output.result(value)


def needs_process(function: Callable[..., object]) -> bool:
    """Whether a function, or a function of its module that it calls, mentions something that works only in a process.

    That is a type with a current object, such as `ActionContext`; a function with the same mark, such as
    `run_subagent`; or a tool that works only in a process.
    """
    written, seen = list[object]([Origin(function).written]), list[object]()
    for each in written:
        if not isinstance(each, FunctionType) or each in seen:
            continue
        seen.append(each)
        for named in (each.__globals__.get(name) for name in _names(each.__code__)):
            # `type` and not `isinstance`: a proxy may fail outside its context when its `__class__` is read.
            kind = type(cast("object", named))
            if issubclass(kind, type | FunctionType):
                of_process = hasattr(named, CURRENT)
            else:
                of_process = hasattr(kind, "in_process") and getattr(named, "in_process", False) is True
            if of_process:
                return True
            if issubclass(kind, FunctionType) and named.__module__ == each.__module__:
                written.append(named)
    return False


def _names(code: CodeType) -> Iterator[str]:
    """The names that code mentions, also in the functions inside it."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)
