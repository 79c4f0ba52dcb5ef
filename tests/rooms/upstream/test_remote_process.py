"""Processes of another goalport are followed by what they say of the next call, whatever kind of question they ask."""

from typing import Any

import pytest
from mcp_types import CallToolResult, TextContent

from goalport.tools.upstream.active_calls import remote_process, with_renamed_tools

BOOLEAN: dict[str, Any] = {"type": "boolean"}
FIELDS: dict[str, Any] = {"type": "object", "properties": {"nights": {"type": "integer"}}, "required": ["nights"]}
CHOICE: dict[str, Any] = {"enum": ["sea", "hills"]}


def answered_with(kind: str, schema: object, argument: str, *more: str, **shown: str) -> CallToolResult:
    question = {"id": "q-1", "message": "Well?", "kind": kind, "schema": schema, **shown}
    arguments = {"processId": "p-1", "questionId": "q-1", argument: "an example"} | dict.fromkeys(more, 1)
    following = {"tool": "answer_it", "arguments": arguments, "instruction": "Ask."}
    content = {"processId": "p-1", "status": "waiting", "questions": [question], "next": following}
    return CallToolResult(content=[], structured_content=content, _meta={"goalport/processId": "p-1"})


@pytest.mark.parametrize(
    ("kind", "schema", "argument", "said", "sent"),
    [
        ("form", FIELDS, "answer", {"nights": 2}, {"nights": 2}),
        ("confirmation", BOOLEAN, "confirmed", {"confirmed": True}, True),
        ("choice", CHOICE, "chosen", {"chosen": "sea"}, "sea"),
    ],
)
def test_a_question_of_any_kind_is_put_as_an_object_and_answered_in_its_argument(
    kind: str, schema: dict[str, Any], argument: str, said: dict[str, Any], sent: object
) -> None:
    process = remote_process(answered_with(kind, schema, argument))
    assert process is not None
    wrapped = {"type": "object", "properties": {argument: schema}, "required": [argument]}
    assert process.form == (schema if schema is FIELDS else wrapped)
    assert process.answered(said) == ("answer_it", {"processId": "p-1", "questionId": "q-1", argument: sent})


def test_a_no_to_a_yes_or_no_is_passed_on_and_to_anything_else_ends_the_process() -> None:
    confirmation = remote_process(answered_with("confirmation", BOOLEAN, "confirmed"))
    choice = remote_process(answered_with("choice", CHOICE, "chosen"))
    assert confirmation is not None
    assert choice is not None
    assert confirmation.answered(None)[1]["confirmed"] is False
    assert choice.answered(None) == ("process_cancel", {"processId": "p-1"})


def test_the_address_that_a_person_shall_open_is_passed_on() -> None:
    visit = remote_process(answered_with("url", BOOLEAN, "confirmed", url="https://example.com/pay"))
    assert visit is not None
    assert visit.message == "Well?\nhttps://example.com/pay"


def test_a_question_whose_answer_has_no_schema_or_no_place_of_its_own_is_left_to_the_caller() -> None:
    assert remote_process(answered_with("form", "fields", "answer")) is None
    assert remote_process(answered_with("form", FIELDS, "processId")) is None
    assert remote_process(answered_with("form", FIELDS, "answer", "other")) is None


def test_an_error_of_another_goalport_names_its_tools_as_the_group_calls_them() -> None:
    said = "choose_and_resume answers it, choose_and_resume_all all; greet them first"
    error = CallToolResult(content=[TextContent(text=said)], is_error=True, _meta={"goalport/processId": "p1"})

    renamed = with_renamed_tools(error, "up_{}".format, ["greet", "choose_and_resume"])

    assert renamed.content == [
        TextContent(text="up_choose_and_resume answers it, choose_and_resume_all all; greet them first")
    ]
