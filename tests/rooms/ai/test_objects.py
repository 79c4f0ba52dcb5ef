"""From a prompt to a typed object: any type that JSON can express, repaired once, or a clear failure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal, cast

import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from goalport.agents.domain import UserInput
from goalport.base.errors import DeclarationError, InvalidModelOutput, TerminateAction
from goalport.models.llm import AssistantMessage, ModelReply, SystemMessage, UserMessage
from goalport.runtime.ai import LlmOperations
from goalport.testing import ScriptedModel, calls_tool
from goalport.tools import ToolResult, tool
from tests.rooms.ai.scripted import Watched, ai_with, scripted


class Sign(Enum):
    ARIES = "aries"
    LEO = "leo"


class Story(BaseModel):
    """A story."""

    title: str = Field(min_length=3, max_length=20)
    pages: Annotated[int, Field(ge=1)] = 1


class Tree(BaseModel):
    name: str
    children: "list[Tree]" = []


@dataclass
class Person:
    name: str
    sign: Sign


class Movie(TypedDict):
    name: str
    year: int


class Palindrome(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def _reads_both_ways(cls, value: str) -> str:
        if value != value[::-1]:
            raise ValueError("should read the same both ways")
        return value


CASES: list[tuple[object, str, object]] = [
    (Story, '{"title": "Foxes", "pages": "3"}', Story(title="Foxes", pages=3)),
    (Person, '{"name": "Lynda", "sign": "leo"}', Person("Lynda", Sign.LEO)),
    (Movie, '{"name": "Alien", "year": 1979}', {"name": "Alien", "year": 1979}),
    (Tree, '{"name": "a", "children": [{"name": "b"}]}', Tree(name="a", children=[Tree(name="b")])),
    (dict[str, int], '{"a": 1}', {"a": 1}),
    (list[Story], '{"result": [{"title": "Foxes"}]}', [Story(title="Foxes")]),
    (list[Story], '[{"title": "Foxes"}]', [Story(title="Foxes")]),
    (tuple[int, str], '{"result": [1, "x"]}', (1, "x")),
    (Sign, '{"result": "aries"}', Sign.ARIES),
    (Sign, "aries", Sign.ARIES),
    (Literal["yes", "no"], '{"result": "no"}', "no"),
    (Story | Person, '{"result": {"name": "Lynda", "sign": "leo"}}', Person("Lynda", Sign.LEO)),
    (Story | Person, '{"name": "Lynda", "sign": "leo"}', Person("Lynda", Sign.LEO)),
    (Story | None, '{"result": null}', None),
    (int, '{"result": 42}', 42),
    (int, "42", 42),
    (str, '{"result": "hello"}', "hello"),
    (str, "hello", "hello"),
    (bool, '{"result": true}', True),
    (date, '{"result": "2026-01-31"}', date(2026, 1, 31)),
    (Annotated[list[int], Field(min_length=1)], '{"result": [1]}', [1]),
    (Decimal, '{"result": "1.10"}', Decimal("1.10")),
    (Story, 'Sure!\n```json\n{"title": "Foxes"}\n```\nEnjoy.', Story(title="Foxes")),
    (Story, 'Here you are: {"title": "Foxes"}. Enjoy!', Story(title="Foxes")),
    (Story, '<think>{"title": "No"}</think>{"title": "Foxes"}', Story(title="Foxes")),
]


@pytest.mark.parametrize(("kind", "written", "value"), CASES)
async def test_a_type_is_made_of_what_the_model_wrote(kind: type[object], written: str, value: object) -> None:
    ai, model = scripted(written)

    assert await ai.create_object("Make one", kind) == value
    assert model.calls[0].output is not None
    assert model.calls[0].output.schema["type"] == "object"


async def test_the_rules_of_a_type_are_in_the_request() -> None:
    ai, model = scripted(Story(title="Foxes"))

    await ai.create_object("Make one", Story)

    output = model.calls[0].output
    assert output is not None
    assert (output.name, output.description) == ("Story", "A story.")
    assert output.schema["properties"] == {
        "title": {"type": "string", "minLength": 3, "maxLength": 20},
        "pages": {"type": "integer", "minimum": 1, "default": 1},
    }


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Story, "Story"),
        (list[Annotated[Story | None, Field(description="one")]], "list[Story | None]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (dict[str, list[Sign]], "dict[str, list[Sign]]"),
        (Literal["yes", "no"], "Literal['yes', 'no']"),
    ],
)
async def test_an_error_calls_a_type_as_people_write_it(kind: type[object], name: str) -> None:
    ai, _ = scripted(*["{broken"] * 10)

    with pytest.raises(InvalidModelOutput) as caught:
        await ai.create_object("Make one", kind)

    assert caught.value.type_name == name


async def test_rules_around_a_type_are_kept_and_its_name_is_that_of_the_type() -> None:
    ai, model = scripted("[]", "[]")

    with pytest.raises(InvalidModelOutput, match=r"give a list\[int\], but: .*at least 1 item"):
        await ai.create_object("Make some", Annotated[list[int], Field(min_length=1)])

    assert model.calls[0].output is not None
    assert model.calls[0].output.name == "list_int"


async def test_a_type_that_contains_itself_has_its_object_at_the_root_of_the_schema() -> None:
    ai, model = scripted(Tree(name="a"))

    await ai.create_object("Make one", Tree)

    output = model.calls[0].output
    assert output is not None
    assert {"type", "properties", "$defs"} <= output.schema.keys()


async def test_what_the_framework_fills_is_not_asked_of_a_model() -> None:
    ai, model = scripted('{"content": "hello"}')

    assert await ai.create_object("Make one", UserInput) == UserInput("hello")

    output = model.calls[0].output
    assert output is not None
    assert output.schema["properties"] == {"content": {"type": "string"}}


class Mute:
    """Nothing that JSON knows."""


@pytest.mark.parametrize("kind", [Mute, list[Mute], Callable[[], int], "Nowhere", object()])
async def test_a_type_that_json_cannot_express_is_refused_before_any_call(kind: type[object]) -> None:
    ai, model = scripted("never")

    with pytest.raises(DeclarationError, match="a type whose values JSON can express"):
        await ai.create_object("Make one", kind)

    assert not model.calls


async def test_violations_are_described_to_the_model_which_then_does_better() -> None:
    ai, model = scripted('{"title": "No", "pages": 0}', '{"title": "Foxes", "pages": 1}')

    assert await ai.create_object("Make one", Story) == Story(title="Foxes")

    told = model.calls[1].messages
    assert told[-2] == AssistantMessage('{"title": "No", "pages": 0}')
    assert isinstance(told[-1], UserMessage)
    assert "- title: should have at least 3 characters; came 'No'" in told[-1].content
    assert "- pages: should be at least 1; came 0" in told[-1].content


async def test_rules_of_the_users_own_are_described_in_the_users_words() -> None:
    ai, model = scripted('{"text": "foxes"}', '{"text": "level"}')

    assert (await ai.create_object("Make one", Palindrome)).text == "level"
    assert "text: should read the same both ways; came 'foxes'" in str(model.calls[1].messages[-1])


async def test_a_second_violation_is_an_error_with_type_violations_and_value() -> None:
    ai, model = scripted('{"title": "No"}', '{"title": "Oh"}')

    with pytest.raises(InvalidModelOutput) as caught:
        await ai.create_object("Make one", list[Story] | Story)

    assert caught.value.type_name == "list[Story] | Story"
    assert any("at least 3 characters" in line for line in caught.value.violations)
    assert caught.value.value == '{"title": "Oh"}'
    assert len(model.calls) == 2


async def test_a_number_of_thousands_of_digits_is_no_json_and_no_failure_of_ours() -> None:
    ai, model = scripted(f'Here: {{"title": {"9" * 5_000}}}', Story(title="A tale"))

    assert (await ai.create_object("Make one up", Story)).title == "A tale"
    assert len(model.calls) == 2


async def test_an_unreadable_reply_is_asked_for_again_up_to_ten_times() -> None:
    ai, model = scripted(*["{broken"] * 9, Story(title="Foxes"))

    assert await ai.create_object("Make one", Story) == Story(title="Foxes")
    last = model.calls[-1].messages
    assert last[:2] == (UserMessage("Make one"), AssistantMessage("{broken"))
    assert "it is no JSON (key must be a string at line 1 column 2)" in str(last[2])
    assert len(last) == 1 + 2 * 9


async def test_a_reply_of_nothing_is_asked_for_with_words_and_not_sent_back() -> None:
    ai, model = scripted("", Story(title="Foxes"))

    await ai.create_object("Make one", Story)
    last = model.calls[1].messages
    assert [type(each) for each in last] == [UserMessage, UserMessage]
    assert "nothing came" in str(last[1])


@pytest.mark.parametrize("broken", ['{"result": "half of', '["half of', '```json\n{"result": "half of'])
async def test_broken_json_is_no_text_either(broken: str) -> None:
    model = ScriptedModel([broken, '{"result": "a whole sentence"}'])
    assert await ai_with(model).create_object("Say something", str) == "a whole sentence"
    assert len(model.calls) == 2


async def test_ten_unreadable_replies_are_an_error() -> None:
    ai, model = scripted(*["I would rather not"] * 11)

    with pytest.raises(InvalidModelOutput, match="no JSON"):
        await ai.create_object("Make one", Story)

    assert len(model.calls) == 10


async def test_the_budget_is_looked_at_between_attempts() -> None:
    operation = Watched(ends_before=3, signal=TerminateAction("spent"))
    model = ScriptedModel(["{broken"] * 10)

    with pytest.raises(TerminateAction):
        await ai_with(model, operation=operation).create_object("Make one", Story)

    assert len(model.calls) == 3


async def test_a_reply_that_was_cut_off_is_not_asked_for_again() -> None:
    cut = ModelReply(message=AssistantMessage('{"title": "Fo'), finish="length")
    ai, model = scripted(cut, "never")

    with pytest.raises(InvalidModelOutput, match="max_tokens"):
        await ai.create_object("Make one", Story)

    assert len(model.calls) == 1


async def test_tools_are_not_called_again_for_another_attempt() -> None:
    called: list[int] = []

    def count() -> int:
        called.append(1)
        return len(called)

    ai, _ = scripted(calls_tool("count"), "{broken", '{"title": "No"}', Story(title="Foxes"))

    assert await ai.with_tools(count).create_object("Make one", Story) == Story(title="Foxes")
    assert len(called) == 1


@pytest.mark.parametrize(
    "reply", ['{"result": null, "failure": "Which sign?"}', '{"failure": "Which sign?"}', "null", '{"result": null}']
)
async def test_a_model_that_knows_too_little_gives_none(reply: str) -> None:
    ai, model = scripted(reply)

    assert await ai.create_object_if_possible("Make a person", Person) is None

    said = model.calls[0].messages[0]
    assert isinstance(said, SystemMessage)
    assert "not have enough information" in said.content


@pytest.mark.parametrize(
    "reply",
    [
        '{"result": {"name": "Lynda", "sign": "leo"}, "failure": null}',
        '{"result": {"name": "Lynda", "sign": "leo"}}',
        '{"name": "Lynda", "sign": "leo"}',
    ],
)
async def test_a_model_that_knows_enough_gives_the_object(reply: str) -> None:
    ai, _ = scripted(reply)

    assert await ai.create_object_if_possible("Make a person", Person) == Person("Lynda", Sign.LEO)


async def test_an_object_that_may_be_declined_is_repaired_too() -> None:
    ai, model = scripted('{"result": {"name": "Lynda", "sign": "fox"}}', '{"failure": "no such sign"}')

    assert await ai.create_object_if_possible("Make a person", Person) is None
    assert "result.sign" in str(model.calls[1].messages[-1])


async def test_a_made_up_example_is_shown_when_wanted() -> None:
    model = ScriptedModel([Story(title="Foxes")] * 3)
    shown = ai_with(model, settings=LlmOperations())

    await shown.create_object("Make one", Story)
    await shown.with_generate_examples(False).create_object("Make one", Story)
    await ai_with(model).with_generate_examples().create_object("Make one", Story)

    first, second, third = (call.messages[0] for call in model.calls)
    assert '"title": "title"' in str(first).replace("\\", "")
    assert isinstance(second, UserMessage)
    assert first == third


async def test_an_example_that_would_break_the_rules_is_not_shown() -> None:
    model = ScriptedModel([Palindrome(text="level")])

    await ai_with(model, settings=LlmOperations()).create_object("Make one", Palindrome)

    assert isinstance(model.calls[0].messages[0], UserMessage)


async def test_only_the_properties_that_are_wanted_are_asked_for() -> None:
    ai, model = scripted('{"title": "Foxes", "pages": 99}')

    assert await ai.creating(Story).with_property_filter(["title"]).from_prompt("Make one") == Story(title="Foxes")

    output = model.calls[0].output
    assert output is not None
    assert list(cast("dict[str, object]", output.schema["properties"])) == ["title"]


async def test_a_filter_that_leaves_out_what_an_object_needs_is_refused() -> None:
    ai, _ = scripted("never")

    with pytest.raises(DeclarationError, match="title would be left out"):
        await ai.creating(Story).with_property_filter(["pages"]).from_prompt("Make one")


async def test_a_tool_that_returns_directly_gives_the_object_itself() -> None:
    story = Story(title="Foxes")

    @tool(return_direct=True)
    def find() -> ToolResult:
        return ToolResult.of_artifact("Found it", story)

    ai, _ = scripted(calls_tool("find"))

    assert await ai.with_tools(find).create_object("Find one", Story) is story


async def test_a_direct_text_that_is_no_such_object_is_an_error() -> None:
    @tool(return_direct=True)
    def find() -> str:
        return "nothing here"

    ai, _ = scripted(calls_tool("find"))

    with pytest.raises(InvalidModelOutput, match="nothing here"):
        await ai.with_tools(find).create_object("Find one", Story)
