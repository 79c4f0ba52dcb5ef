"""What clients see of each kind of question, and how they answer it: with a companion tool, or a form of their own."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import Client
from pydantic import BaseModel

from goalport import WaitFor
from goalport.base.errors import BadInput
from goalport.runtime.process import Question
from goalport.server.publish.forms import Form, form_of
from goalport.server.publish.handle import HANDLE
from tests.rooms.serve.askers import call, handle_of
from tests.rooms.serve.inn import ROOMS, Address, Inn, Room
from tests.rooms.serve.served import ERAS, Served, served, text_of


async def asked(server: Served, client: Client, *answers: object) -> dict[str, Any]:
    """The handle after these answers."""
    result = await call(client, "take_room", content="a room")
    handle = handle_of(server, "take_room", result)
    for each in answers:
        result = await call(client, "process_answer", processId=handle["processId"], answer=each)
        assert not result.is_error, result
        handle = handle_of(server, "take_room", result)
    return handle


@pytest.mark.parametrize("era", ERAS)
async def test_a_choice_shows_its_options_and_takes_a_key_or_a_label(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Inn()) as server, server.client(era) as client:
        jsonschema.Draft202012Validator.check_schema(HANDLE)
        first = await call(client, "take_room", content="a room")
        handle = handle_of(server, "take_room", first)
        (question,) = handle["questions"]
        assert question["kind"] == "choice"
        jsonschema.validate(handle, HANDLE)
        assert question["options"] == [{"key": "12", "label": "Attic"}, {"key": "14", "label": "Garden"}]
        assert question["schema"] == {
            "type": "object",
            "properties": {
                "choice": {
                    "type": "string",
                    "oneOf": [{"const": "12", "title": "Attic"}, {"const": "14", "title": "Garden"}],
                }
            },
            "required": ["choice"],
        }
        assert "The options are: 12 (Attic); 14 (Garden)" in text_of(first)
        assert handle["next"]["arguments"]["answer"] is None
        process = {"processId": handle["processId"]}
        for wrong in ({"choice": "Cellar"}, {"choise": "12"}, {}):
            refused = await call(client, "process_answer", **process, answer=wrong)
            assert refused.is_error
            assert "choice: " in text_of(refused)
        by_label = await call(client, "process_answer", **process, answer="Garden")
        assert handle_of(server, "take_room", by_label)["questions"][0]["kind"] == "input"


async def test_a_text_and_an_address_have_their_kinds_too(tmp_path: Path) -> None:
    async with served(tmp_path, Inn()) as server, server.client() as client:
        (question,) = (await asked(server, client, "14"))["questions"]
        assert (question["kind"], question["schema"]["required"]) == ("input", ["answer"])
        handle = await asked(server, client, {"choice": "14"}, {"answer": "The sea"})
        (question,) = handle["questions"]
        assert (question["kind"], question["url"]) == ("url", "https://example.com/deposit?stay=1")
        assert handle["next"]["tool"] == "process_answer"
        status = await call(client, "process_status", processId=handle["processId"])
        assert "https://example.com/deposit?stay=1 Once they say that it is done, call process_answer" in text_of(
            status
        )
        wrong = await call(client, "process_answer", processId=handle["processId"], answer={"answer": "x"})
        assert "should be yes or no" in text_of(wrong)


async def test_a_draft_stands_in_the_form_and_counts_for_what_is_left_out(tmp_path: Path) -> None:
    async with served(tmp_path, Inn()) as server, server.client() as client:
        handle = await asked(server, client, '{"choice": "14"}', "The sea", "true")
        (question,) = handle["questions"]
        fields = question["schema"]["properties"]
        assert "required" not in question["schema"]
        assert {name: each.get("default") for name, each in fields.items()} == {
            "name": "Ada",
            "nights": 2,
            "home": {"city": "Oslo", "street": "Kirkeveien"},
            "note": None,
            "code": None,
        }
        answered = await call(client, "process_answer", processId=handle["processId"], answer={"nights": 3})
        assert text_of(answered) == "Ada, 3 nights in Garden: The sea"


def form(wait: WaitFor[Any]) -> Form:
    return form_of(Question("q-1", "p-1", "ask", wait))


def test_a_draft_counts_for_each_field_of_a_form_that_a_client_shows() -> None:
    wait = WaitFor.form_submission("Is that right?", Prefilled, prefill=Prefilled(name="Ada"))
    schema = form(wait).elicitation("2025-11-25")
    assert schema == {
        "type": "object",
        "properties": {"name": {"type": "string", "default": "Ada"}, "nights": {"type": "integer", "default": 3}},
    }
    assert form(wait).read(form(wait).elicited({"nights": 2})) == Prefilled(name="Ada", nights=2)


class Prefilled(BaseModel):
    name: str
    nights: int | None = 3


def test_the_empty_field_of_a_draft_stays_empty() -> None:
    wait = WaitFor.form_submission("Is that right?", Prefilled, prefill=Prefilled(name="Ada", nights=None))
    assert form(wait).read({}) == Prefilled(name="Ada", nights=None)
    assert form(wait).read(form(wait).elicited({})) == Prefilled(name="Ada", nights=None)


@pytest.mark.parametrize("era", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_a_choice_is_an_enumeration_with_titles_where_a_version_has_them(era: str) -> None:
    asked = form(WaitFor.choice("Which room?", ROOMS, Room))
    assert asked.elicitation(era) == {
        "type": "object",
        "properties": {
            "choice": {"type": "string", "enum": ["12", "14"], "enumNames": ["Attic", "Garden"]}
            if era == "2025-06-18"
            else {"type": "string", "oneOf": [{"const": "12", "title": "Attic"}, {"const": "14", "title": "Garden"}]}
        },
        "required": ["choice"],
    }
    assert asked.read(asked.elicited({"choice": "14"})) == "14"


def test_a_choice_of_one_keeps_its_title() -> None:
    asked = form(WaitFor.choice("Which room?", ROOMS[:1], Room)).elicitation("2025-11-25")
    assert asked is not None
    assert asked["properties"] == {"choice": {"type": "string", "oneOf": [{"const": "12", "title": "Attic"}]}}


def test_labels_that_are_their_own_keys_are_a_bare_enumeration() -> None:
    asked = form(
        WaitFor.choice("Which?", [Address(street="b"), Address(street="a")], Address, label=lambda x: x.street)
    )
    assert asked.schema["properties"] == {"choice": {"type": "string", "enum": ["b", "a"]}}
    assert asked.read("a") == "a"


def test_who_has_opened_an_address_says_in_a_form_that_it_is_done_unless_the_page_does() -> None:
    asked = form(WaitFor.url("Pay.", "https://example.com"))
    schema = asked.elicitation("2025-11-25")
    assert schema is not None
    assert schema["properties"] == {"confirmed": {"type": "boolean", "title": "It is done", "default": True}}
    assert (asked.url, asked.read(asked.elicited({"confirmed": True}))) == ("https://example.com", True)
    assert form(WaitFor.input("Who?")).url is None
    asked = form(WaitFor.url("Sign in.", "http://localhost:8000/", calls_back=True))
    assert asked.elicitation("2025-11-25") is None
    assert asked.read(False) is False
    with pytest.raises(BadInput, match="only the page itself says that it is done"):
        asked.read(True)


def test_a_text_is_a_form_of_one_field_with_its_draft() -> None:
    asked = form(WaitFor.input("Who?", prefill="Ada"))
    assert asked.elicitation("2025-11-25") == {
        "type": "object",
        "properties": {"answer": {"type": "string", "minLength": 1, "default": "Ada"}},
    }
    assert [asked.read(asked.elicited(each)) for each in ({}, {"answer": ""}, {"answer": "Bo"})] == ["Ada", "Ada", "Bo"]
    assert asked.read("Cy") == "Cy"
    with pytest.raises(BadInput, match="answer: required"):
        form(WaitFor.input("Who?")).read({})
