"""What is done around a call: layers, a person's approval, and what is current when a tool is called."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any

import anyio
import pytest
from pydantic import Field

from goalport.base.caller import ANONYMOUS
from goalport.base.errors import BadInput, GoalportError
from goalport.base.events import SourcesShown
from goalport.tools import Approval, Parameter, Tool, ToolGroup, ToolResult, calling_from, tool

_current: ContextVar["Session | None"] = ContextVar("session", default=None)


class Session:
    """A type of a floor above that says how its current object is found."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def __goalport_current__(cls) -> "Session":
        found = _current.get()
        if found is None:
            raise GoalportError("Expected to run in a session, but there is none.")
        return found

    @contextmanager
    def active(self) -> Generator[None]:
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


class Maybe(Session):
    """Gives None when there is none."""

    @classmethod
    def __goalport_current__(cls) -> Any:
        return None


async def call(of: Tool, **arguments: object) -> ToolResult:
    with anyio.fail_after(60):
        return await of.call(arguments)


def greet(session: Session, name: str, count: int = 1, *, again: Session | None = None) -> str:
    """Greet somebody.

    Args:
        session: Where from.
        name: Whom.
        count: How often.
    """
    return f"{session.name} greets {name} {count} times, {again is session}"


def test_what_is_injected_is_in_no_schema() -> None:
    assert Tool.of(greet).input_schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Whom."},
            "count": {"type": "integer", "default": 1, "description": "How often."},
        },
        "required": ["name"],
        "additionalProperties": False,
    }


async def test_what_is_current_is_given_to_the_tool_and_nobody_can_send_it() -> None:
    with Session("Ada").active():
        assert (await call(Tool.of(greet), name="Bob", count="2")).text == "Ada greets Bob 2 times, True"
        refused = await call(Tool.of(greet), name="Bob", session={"name": "Eve"})

    assert refused.is_error
    assert "session: unknown." in refused.text


async def test_without_anything_current_a_tool_that_needs_it_says_so_and_one_that_does_not_gets_none() -> None:
    def perhaps(session: Annotated[Session | None, Field(description="x")], /) -> str:
        return str(session)

    def maybe(session: Maybe) -> str:
        return session.name

    assert (await call(Tool.of(perhaps))).text == "None"
    assert (await call(Tool.of(greet), name="Bob")).text == (
        "The tool needs a Session: Expected to run in a session, but there is none."
    )
    assert (await call(Tool.of(maybe))).text == "The tool needs a Maybe, and it was called where there is none."


async def test_methods_and_async_tools_are_injected_too() -> None:
    class Greeter:
        @tool
        async def hello(self, session: Session) -> str:
            """Say hello."""
            return session.name

    (hello,) = Tool.from_instance(Greeter())
    with Session("Ada").active():
        assert (await call(hello)).text == "Ada"


async def test_a_layer_may_hold_a_context_open_around_a_call_that_fails() -> None:
    def fail(session: Session) -> str:
        raise ValueError(session.name)

    async def in_session(inside: Tool, arguments: Mapping[str, object]) -> ToolResult:
        with Session("Ada").active():
            return await inside.call(arguments)

    assert "ValueError: Ada" in (await call(Tool.of(fail).with_layer(in_session))).text
    assert _current.get() is None


async def test_of_several_layers_the_last_is_the_outermost_and_a_copy_leaves_the_tool_alone() -> None:
    def noting(word: str) -> Any:
        async def layer(inside: Tool, arguments: Mapping[str, object]) -> ToolResult:
            seen.append(word)
            return await inside.call(arguments)

        return layer

    seen: list[str] = []
    plain = Tool.of(lambda: "done", name="it")
    both = plain.with_layer(noting("inner")).with_layer(noting("outer")).with_name("other")

    assert (await call(both)).text == "done"
    assert seen == ["outer", "inner"]
    await call(plain)
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("approval", "hints", "needed"),
    [
        ("never", {}, False),
        ("never", {"destructive": True}, False),
        ("always", {"read_only": True}, True),
        ("destructive", {}, True),
        ("destructive", {"destructive": True}, True),
        ("destructive", {"destructive": False}, False),
        ("destructive", {"read_only": True}, False),
    ],
)
def test_who_is_asked_depends_on_what_a_tool_says_of_itself(approval: Approval, hints: Any, *, needed: bool) -> None:
    @tool(**hints)
    def it() -> None: ...

    (grouped,) = ToolGroup.of("role", it, approve=approval).tools
    assert grouped.needs_approval is needed
    assert Tool.of(it).with_approval(approval).needs_approval is needed


def test_what_a_tool_says_goes_before_what_its_group_says() -> None:
    asked = Tool.of(lambda: 1, name="a").with_approval("always")
    group = ToolGroup.of("role", asked, Tool.of(lambda: 1, name="b"), approve="destructive")

    assert [each.approval for each in group.tools] == ["always", "destructive"]


class Counter:
    """A call site that asks nobody and counts the calls that it was to make."""

    caller = ANONYMOUS

    def __init__(self) -> None:
        self.calls = 0

    def has_result(self, tool: Tool, arguments: Mapping[str, object], /) -> bool:
        return False

    async def call(self, tool: Tool, arguments: Mapping[str, object], /) -> ToolResult:
        self.calls += 1
        return await tool.run(arguments)

    async def call_once(self, tool: Tool, /) -> ToolResult:
        return await self.call(tool, {})

    def emit(self, event: SourcesShown, /) -> None:
        raise AssertionError(event)

    def before_request(self) -> None:
        raise AssertionError("tools here ask no models")

    def spend(self, model: str, tokens: int, cost: float, seconds: float, /) -> None:
        raise AssertionError(model)


def by_mapping(arguments: Mapping[str, object]) -> str:
    return f"removed {arguments['path']}"


def remove(path: str) -> str:
    return f"removed {path}"


SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


@pytest.mark.parametrize(
    "plain",
    [
        Tool.of(remove, name="remove"),
        Tool.of(by_mapping, name="remove", input_schema=SCHEMA),
        Tool.of(by_mapping, name="remove", parameters=[Parameter("path")]),
    ],
)
async def test_nobody_is_asked_about_arguments_that_cannot_be_used(plain: Tool) -> None:
    site = Counter()
    asked = plain.with_approval("always")
    with calling_from(site):
        assert (await call(asked, path=[])).text.startswith("The arguments need correcting:\n- path")
        assert site.calls == 0
        assert (await call(asked, path="a")).text == "removed a"
    assert site.calls == 1
    with pytest.raises(BadInput):
        asked.check({})
