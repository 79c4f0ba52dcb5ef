"""A tool: a name, a description and a schema for a model, and what happens when it is called.

A tool knows neither who publishes it nor which model calls it. Functions, upstream servers and agents are all behind
the same kind of handler.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from goalport.errors import BadInput, DeclarationError, Signal, ToolError
from goalport.tools.arguments import read_arguments
from goalport.tools.docstrings import read_docstring
from goalport.tools.functions import FunctionHandler
from goalport.tools.marks import ToolMark, mark_of
from goalport.tools.outputs import read_output
from goalport.tools.places import docstring_of, place_of
from goalport.tools.problems import listed, schema_problems, shortened
from goalport.tools.results import ToolResult

__all__ = ["Tool"]

_log = logging.getLogger(__name__)
_MESSAGE_LIMIT = 2_000


@dataclass(frozen=True)
class Tool:
    """What a model may call: made of a function with `Tool.of`, of an object's `@tool` methods with `from_instance`."""

    name: str
    description: str
    input_schema: Mapping[str, object]
    handler: Callable[[Mapping[str, object]], Awaitable[ToolResult]]
    title: str = ""
    """A name for people."""
    output_schema: Mapping[str, object] | None = None
    """What `ToolResult.structured` is valid against."""
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    return_direct: bool = False
    """The result ends a model's loop instead of going back to the model."""
    checks_arguments: bool = False
    """The handler reports bad arguments itself; otherwise they are checked against `input_schema` before the call."""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise DeclarationError(
                "Tool",
                expected="a name for the tool",
                came=f"it is {self.name!r}",
                fix="Give one, and see that the naming keeps it.",
            )

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Run the tool. Bad arguments and failures are results with `is_error`, in words for the model that called.

        A `Signal`, which is meant for the process that the call is part of, is raised as it is; so is one that comes
        out of a task group of the tool's own.
        """
        try:
            if not self.checks_arguments and (problems := schema_problems(self.input_schema, arguments)):
                return ToolResult.of_error(listed(shortened(problems)))
            return await self.handler(arguments)
        except (BadInput, ToolError) as error:
            return ToolResult.of_error(str(error))
        except Signal:
            raise
        except (Exception, SystemExit) as error:
            if signal := next((each for each in _leaves(error) if isinstance(each, Signal)), None):
                raise signal from error
            _log.warning("Tool %s failed", self.name, exc_info=error)
            return ToolResult.of_error(f"The tool {self.name!r} failed: {_summary(error)}")

    def with_name(self, name: str) -> "Tool":
        return replace(self, name=name)

    def with_description(self, description: str) -> "Tool":
        return replace(self, description=description)

    def with_note(self, note: str) -> "Tool":
        """A copy that says more: the note is a paragraph after the description."""
        return replace(self, description=f"{self.description}\n\n{note}".strip())

    @classmethod
    def of(cls, function: Callable[..., Any], *, name: str = "", description: str = "") -> "Tool":
        """A function as a tool, marked with `@tool` or not; `name` and `description` go before the mark's."""
        if isinstance(function, type):
            raise _not_a_class(function)
        mark = mark_of(function) or ToolMark()
        chosen = name or mark.name or _own_name(function)
        arguments = read_arguments(function)
        output = read_output(function)
        docs = read_docstring(docstring_of(function), [each.name for each in arguments.parameters.values()])
        return cls(
            name=chosen,
            description=description or mark.description or docs.description or chosen.replace("_", " "),
            input_schema=arguments.schema(docs.parameters),
            handler=FunctionHandler(function, arguments, output),
            title=mark.title,
            output_schema=output.schema,
            read_only=mark.read_only,
            destructive=mark.destructive,
            idempotent=mark.idempotent,
            open_world=mark.open_world,
            return_direct=mark.return_direct,
            checks_arguments=True,
        )

    @classmethod
    def from_instance(cls, instance: object) -> "tuple[Tool, ...]":
        """The `@tool` methods of an object, in the order in which they are written; having none is an error."""
        found = cls.safely_from_instance(instance)
        if not found:
            raise DeclarationError(
                f"{type(instance).__module__}: {type(instance).__qualname__}",
                expected="methods that are marked with @tool",
                came="there is none",
                fix="Put @tool above the methods that a model may call.",
            )
        return found

    @classmethod
    def safely_from_instance(cls, instance: object) -> "tuple[Tool, ...]":
        """The `@tool` methods of any object; none is fine."""
        if isinstance(instance, type):
            raise _not_a_class(instance)
        return tuple(cls.of(getattr(instance, name)) for name in _marked_methods(type(instance)))


def _marked_methods(kind: type) -> Iterator[str]:
    """The names of marked methods, bases first. A mark on a method of a base counts for what overrides it."""
    marked = dict.fromkeys(
        name for base in reversed(kind.__mro__) for name, value in vars(base).items() if mark_of(value) is not None
    )
    return (name for name in marked if callable(getattr(kind, name, None)))


def _not_a_class(kind: type) -> DeclarationError:
    return DeclarationError(
        f"{kind.__module__}: {kind.__qualname__}",
        expected="an object with methods, or a function",
        came="it is a class",
        fix=f"Make an object of it: `{kind.__name__}(…)`.",
    )


def _own_name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "")
    if name and name != "<lambda>":
        return name
    raise DeclarationError(
        place_of(function),
        expected="a name for the tool",
        came="the function has none",
        fix="Write `Tool.of(function, name=…)`.",
    )


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors that a group of them consists of; any other error is itself."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
        yield from _leaves(each)


def _summary(error: BaseException) -> str:
    told = ((type(each).__name__, str(each)) for each in _leaves(error))
    return "; ".join(f"{name}: {text}" if text else name for name, text in told)[:_MESSAGE_LIMIT]
