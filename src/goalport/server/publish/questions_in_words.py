"""Questions in words, for clients that show nothing but text: how one is asked, and what is understood as its answer.

A question ends with a line that names it, so that the next request of a client shows what was asked. Which answers are
valid is known by its form (`forms`). Above: the doors of such clients.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

from pydantic_core import from_json

from goalport.base.errors import BadInput
from goalport.base.words import in_json
from goalport.models.llm import AssistantMessage, Message
from goalport.runtime.process import Question
from goalport.server.publish.forms import FlatForm, Form, FormField, form_of
from goalport.tools.schemas import UNREADABLE, holds_secret

_NAMED: Final = re.compile(r"\(Question (?P<question>q-[0-9a-f]+) of process (?P<process>[a-z0-9-]+)\)\s*$")
TOO_LATE: Final = re.compile(r"\(Question q-[0-9a-f]+ of process (?P<process>[a-z0-9-]+) is closed\)\s*$")
"""Matches the end of the reply to an answer that came too late."""
_YES: Final = frozenset(
    ["yes", "y", "yeah", "yep", "sure", "ok", "okay", "true", "approve", "approved", "confirm", "confirmed", "done"]
)
_NO: Final = frozenset(["no", "n", "nope", "false", "decline", "declined", "reject", "rejected", "never", "cancel"])
_HEDGES: Final = _NO | {"not", "don't", "dont", "but", "wait", "unless", "if", "except", "instead", "later", "stop"}
"""A yes with one of these words is no approval, and is asked again: an approval has to be plain."""
_DECLINED: Final = frozenset(["cancel", "decline", "skip", "stop", "never mind", "nevermind"])
_WORD: Final = re.compile(r"[\w']+")
_BETWEEN: Final = re.compile(r"[:=]")
"""The separator between a field and its value in a line."""
_FIELD: Final = re.compile(r"[\w. ]+")
_DIGITS: Final = 6
"""The most digits of the number of an option."""
_ONLY: Final = "answer"
"""The name of the only field of a form, which is not shown: the question says what it is."""
_REASON: Final = "The person said: "


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that the history in a client's request shows."""

    question: str
    """The id of the question."""
    process: str
    """The id of its process."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was understood."""

    response: object = None
    declined: str = ""
    """Why the person declines to answer; empty: they do not decline."""


@dataclass(frozen=True, slots=True)
class Unclear:
    """A message that is no valid answer."""

    words: str


def in_words(question: Question) -> str:
    """A question as a text, with all that an answer needs, and its name in the last line."""
    try:
        needed = _needed(question, form_of(question))
    except UNREADABLE:
        needed = ""
    named = f"(Question {question.id} of process {question.process_id})"
    return "\n\n".join(filter(None, (question.message, needed, named)))


def asked_in(messages: Sequence[Message]) -> Asked | None:
    """The question that was asked right before the last message of a history; None if there is none."""
    before = messages[-2] if len(messages) > 1 else None
    found = _NAMED.search(before.content) if isinstance(before, AssistantMessage) else None
    return Asked(found["question"], found["process"]) if found else None


def process_named_in(messages: Sequence[Message]) -> str:
    """The id of the process whose question the last reply asks, or calls closed; empty if there is none."""
    replies = [each.content for each in messages[:-1] if isinstance(each, AssistantMessage)]
    found = (_NAMED.search(replies[-1]) or TOO_LATE.search(replies[-1])) if replies else None
    return found["process"] if found else ""


def too_late(question: Question) -> str:
    """The reply to an answer whose question is closed; its last line names the question, for `TOO_LATE`."""
    status = "withdrawn" if question.status == "open" else question.status
    told = f"This question is {status} already, and nothing was done about your answer: {question.message}"
    named = f"(Question {question.id} of process {question.process_id} is closed)"
    return f"{told}\n\nThe conversation goes on with what you say next.\n\n{named}"


def read_answer(question: Question, text: str) -> Answer | Unclear:
    """The answer to a question in what a person says."""
    said = text.strip()
    plain = said.lower().rstrip(".!")
    try:
        form = form_of(question)
        if form.kind in {"confirmation", "url"}:
            first = plain.split(maxsplit=1)[0].rstrip(",") if plain else ""
            if first in _YES and not _HEDGES.intersection(_WORD.findall(plain.replace("\u2019", "'"))):
                return Answer(form.read(True))
            if first in _NO:
                # A no to a question is an answer; whoever does not open an address declines.
                return Answer(form.read(False)) if form.kind == "confirmation" else Answer(declined=_REASON + said)
            return Unclear(f"That is neither a yes nor a no.\n\n{in_words(question)}")
        if plain in _DECLINED:
            return Answer(declined=_REASON + said)
        if holds_secret(form.schema):
            return Unclear(in_words(question))
        return Answer(form.read(_given(form, said)))
    except BadInput as error:
        return Unclear(f"{error}\n\n{in_words(question)}")
    except UNREADABLE:
        return Unclear("This question cannot be answered in words: answer it where it can, or cancel the process.")


def _needed(question: Question, form: Form) -> str:
    """What a person has to know in addition to the question."""
    if form.url is not None:
        return f"Open {form.url}" + ("" if form.calls_back else " and say when it is done.")
    if form.kind == "confirmation":
        return "Answer yes or no."
    if holds_secret(form.schema):
        return (
            "The answer holds a secret, which must not stand in a conversation. Give it where it is kept secret, in"
            f" a terminal: goalport answer {question.process_id} --question {question.id}"
        )
    if form.options:
        return "\n".join(f"{number}. {each['label']}" for number, each in enumerate(form.options, 1))
    flat = FlatForm.of(form.schema, whole=True)
    if flat is None:
        return "Answer with a JSON object."
    if [each.name for each in flat.fields] == [_ONLY]:
        notes = _notes(flat.fields[0])
        return f"({notes})" if notes else ""
    lines = ["Answer with a line for each of these:"]
    for each in flat.fields:
        what, notes = each.schema.get("description") or each.schema.get("title") or "", _notes(each)
        lines.append("- " + each.name + (f": {what}" if what else "") + (f" ({notes})" if notes else ""))
    return "\n".join(lines)


def _notes(field: FormField) -> str:
    """The possible values of a field, and its default or that it is optional."""
    plain = "yes or no" if field.schema.get("type") == "boolean" else ", ".join(each.title for each in field.choices)
    titles = {each.text: each.title for each in field.choices}
    match field.default:
        case None | "" | []:
            left_out = "optional"
        case bool(default):
            left_out = f"default: {'yes' if default else 'no'}"
        case str(default):
            left_out = f"default: {titles.get(default, default)}"
        case default:
            left_out = f"default: {in_json(default)}"
    return "; ".join(filter(None, (plain, *field.limits, "" if field.required else left_out)))


def _given(form: Form, said: str) -> object:
    """The answer in a text: JSON, lines with fields, the number of an option, or the value of the only field."""
    if said.startswith("{"):
        with suppress(ValueError):
            return cast("object", from_json(said))
    if form.options:
        # The key of the option that was meant, by its number, its key or its label.
        number, meant = said.rstrip("."), [*form.options]
        if number.isdecimal() and len(number) <= _DIGITS and 0 < int(number) <= len(meant):
            return meant[int(number) - 1]["key"]
        keys = (each["key"] for each in meant if said.lower() in {each["key"].lower(), each["label"].lower()})
        return next(keys, said)
    flat = FlatForm.of(form.schema, whole=True)
    fields = {each.name: each for each in flat.fields} if flat else {}
    meant_by = {name.lower(): name for name in fields}  # whatever its capitals and spaces are
    named = dict[str, str]()
    for line in said.splitlines():  # such as `- field: value`
        before, *after = _BETWEEN.split(line, maxsplit=1)
        field, value = before.strip(), "".join(after).strip()
        field = field[1:].lstrip() if field.startswith(("-", "*")) else field
        if value and _FIELD.fullmatch(field):
            named[meant_by.get(field.lower().replace(" ", "_"), field)] = value
    required = [each.name for each in fields.values() if each.required]
    wanted = required or list(fields)
    if not (named or required or said.lower().rstrip(".!") in _YES):
        return said  # it does not accept the draft
    if len(wanted) == 1 and not (named and named.keys() <= fields.keys()):
        named = {wanted[0]: said}
    content = {name: _value(fields[name], text) if name in fields else text for name, text in named.items()}
    return content if flat is None else flat.answer(content)


def _value(field: FormField, said: str) -> object:
    """What a text means in a field: a choice by its text or title, several with commas between them, or JSON."""
    kind = field.schema.get("type")
    if said.startswith(("[", "{")) and kind in {"array", "object"}:
        with suppress(ValueError):
            return cast("object", from_json(said))
    texts = {name.lower(): each.text for each in field.choices for name in (each.title, each.text)}
    if kind == "array":
        return [texts.get(each.strip().lower(), each.strip()) for each in said.split(",")]
    return texts.get(said.lower(), said)
