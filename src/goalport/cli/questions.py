"""Asks a question on the terminal: a prompt for each field of the answer, until the answer is accepted.

A question is JSON data with `message`, `schema` and perhaps `url`, from the store or a server. A mistake is shown at
its field, and only that field is asked for again.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from functools import partial
from typing import Any, Final, TypeVar, cast

from goalport.base.errors import AlreadyAnswered, BadInput, GoalportError
from goalport.base.words import cleaned, corrections, one_line, requirement
from goalport.cli.prompts import Option, prompts_here
from goalport.cli.terminal import say
from goalport.server.publish.forms import FlatForm, FormField
from goalport.server.publish.portability import Schema
from goalport.tools import schema_problems

T = TypeVar("T")
Question = Mapping[str, Any]
Status = Callable[[], Awaitable[str]]
"""Returns the status of a question: open, answered, declined, expired or withdrawn."""
_LOOK_SECONDS: Final = 1.0
"""Seconds between two checks whether somebody else has answered meanwhile."""
_ANSWER: Final = "answer"
_KINDS: Final = {"integer": (int, "a whole number"), "number": (int | float, "a number"), "boolean": (bool, "y or n")}
_YES_OR_NO: Final = {"y": True, "yes": True, "n": False, "no": False}
_Y_OR_N: Final = "Type y or n."
_NONE: Final = Option("", "(leave it empty)")
_FORMATS: Final[Mapping[str, Callable[[str], object]]] = {
    "date": date.fromisoformat,
    "date-time": datetime.fromisoformat,
    "time": time.fromisoformat,
}


async def ask_question(question: Question, send: Callable[[object], Awaitable[T]], status: Status) -> T:
    """Ask a question until `send` accepts the answer, and return what `send` returned.

    `send` raises `BadInput` for an answer that does not fit. Raises `Unanswered`, and `AlreadyAnswered` as soon as the
    question is not open any more.
    """
    message = question["message"]
    say(f"\n{cleaned(message, len(message))}")
    if url := question.get("url"):
        say(f"Do it at {one_line(url, len(url))} and come back.")

    async def settled() -> str:
        """The status of the question, once it is not open any more."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            with suppress(GoalportError):  # sending the answer reports what is wrong
                if (now := await status()) != "open":
                    return now

    asking = asyncio.ensure_future(_TerminalForm(question["schema"]).ask_until_accepted(send))
    watching = asyncio.ensure_future(settled())
    try:
        await asyncio.wait({asking, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            raise AlreadyAnswered(question["id"], watching.result())
        return asking.result()
    finally:
        for task in (asking, watching):
            task.cancel()
        await asyncio.gather(asking, watching, return_exceptions=True)


class _TerminalForm:
    """The fields of an answer, with what was typed into them so far."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._prompts = prompts_here()
        self._flat = FlatForm.of(schema, whole=True)
        whole = FormField(_ANSWER, schema, key_required=True, nullable=False)
        self._fields = (whole,) if self._flat is None else self._flat.fields
        self._content: dict[str, Any] = {}

    async def ask_until_accepted(self, send: Callable[[object], Awaitable[T]]) -> T:
        """Ask until `send` accepts the answer; after a `BadInput`, only for the fields that its problems name."""
        problems: Sequence[str] = ()
        with self._prompts.session():
            while True:
                # A problem begins with its field, or a part of one, as in `stops[1].nights: required, but missing`.
                places = {each.name: (f"{each.name}: ", f"{each.name}.", f"{each.name}[") for each in self._fields}
                wrong = {name: [each for each in problems if each.startswith(of)] for name, of in places.items()}
                if problems:
                    placed = [line for lines in wrong.values() for line in lines]
                    say(corrections([self._hidden(each) for each in problems if each not in placed], of="answer"))
                for each in [each for each in self._fields if wrong[each.name]] or self._fields:
                    for line in wrong[each.name]:
                        say(f"- {self._hidden(line)}")
                    await self._ask(each)
                flat, content = self._flat, self._content
                try:
                    return await send(content.get(_ANSWER) if flat is None else flat.answer(content))
                except BadInput as error:
                    if not error.problems:
                        raise
                    problems = error.problems

    def _hidden(self, line: str) -> str:
        """A problem without the secrets that were typed."""
        for each in self._fields:
            if each.secret and (typed := self._content.get(each.name)):
                line = line.replace(typed, "***")
        return line

    async def _ask(self, field: FormField) -> None:
        """Ask for the value of a field, and store it in `_content`."""
        prompts, schema, kind = self._prompts, field.schema, field.schema.get("type")
        typed = self._content.pop(field.name, None)
        before = typed if prompts.edits and typed is not None else field.default
        notes = [schema.get("description"), *field.limits]
        if kind == "boolean" and field.default is None:
            notes.insert(1, "y or n")
        if kind in {"array", "object"} and not field.choices:
            notes.append("with commas between them" if _is_texts(schema) else "as JSON")
        told = "; ".join(one_line(each) for each in notes if each)
        label = f"{one_line(field.name)} ({told})" if told else one_line(field.name)
        options = [Option(each.text, one_line(each.title)) for each in field.choices]
        mistake = partial(self._mistake, field)
        value: object = None
        if self._flat is None and kind == "boolean":
            while value is None:
                line = await prompts.line("y or n", "", lambda typed: "" if typed.lower() in _YES_OR_NO else _Y_OR_N)
                value = _YES_OR_NO.get(line.lower())
        elif options and kind == "array":
            chosen = [str(each) for each in before] if isinstance(before, list) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            values = {each.text: each.value for each in field.choices}
            value = await prompts.several(
                label, options, chosen, lambda texts: mistake([values[each] for each in texts])
            )
        elif options:
            default = "" if before is None else str(before)
            value = await prompts.one(label, options if field.required or default else [_NONE, *options], default)
        else:
            shown = "" if field.secret else _shown(before, schema)
            line = await prompts.line(label, shown, lambda typed: mistake(_value(typed, schema)), secret=field.secret)
            value = _value(line, schema)
        if value not in (None, "", []) or before not in (None, ""):
            self._content[field.name] = value

    def _mistake(self, field: FormField, value: object) -> str:
        """What is wrong with a value by the schema of its field alone; empty: nothing."""
        if value in ("", None):
            drafted = field.default is not None and not field.nullable and not field.takes_empty_text
            return "It is required." if field.required or drafted else ""
        kind, words = _KINDS.get(str(field.schema.get("type")), (object, ""))
        if not isinstance(value, kind):
            return f"It should be {words}."
        definitions = {"$defs": self._schema["$defs"]} if "$defs" in self._schema else {}
        schema = {**definitions, "properties": {field.name: field.schema}}
        if problems := schema_problems(schema, {field.name: value}):
            return "It does not fit." if field.secret else problems[0].removeprefix(f"{field.name}: ")
        name = str(field.schema.get("format"))
        if name in _FORMATS and isinstance(value, str):
            try:
                _FORMATS[name](value)
            except ValueError:
                return f"It {requirement('format', name)}."
        return ""


def _is_texts(schema: Schema) -> bool:
    return bool(schema.get("type") == "array" and schema.get("items", {}).get("type") == "string")


def _shown(value: object, schema: Schema) -> str:
    """A value as the text with which its line begins."""
    if value is None or value == []:
        return ""
    if isinstance(value, bool):
        return "y" if value else "n"
    if isinstance(value, list) and _is_texts(schema):
        return ", ".join(cast("list[str]", value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _value(typed: str, schema: Schema) -> object:
    """The typed text, parsed as JSON unless the field is a text; invalid JSON stays as it is, and is refused later."""
    if not typed or schema.get("type") == "string":
        return typed
    if schema.get("type") == "boolean" and typed.lower() in _YES_OR_NO:
        return _YES_OR_NO[typed.lower()]
    if _is_texts(schema) and not typed.startswith("["):
        return [each.strip() for each in typed.split(",") if each.strip()]
    with suppress(ValueError):
        return json.loads(typed)
    return typed
