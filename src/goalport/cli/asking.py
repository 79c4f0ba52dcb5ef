"""A question of a process on the terminal: a line per field of a form, y or n for a confirmation.

It asks and reads; whether an answer will do is decided by `Form`, in the same words as over MCP. `running` is above.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from goalport.cli.terminal import say
from goalport.errors import BadInput
from goalport.process import Question
from goalport.publish.forms import YesNoForm, form_of

__all__ = ["Unanswered", "answer_to"]


class Unanswered(Exception):
    """The person has closed the input instead of answering."""


def answer_to(question: Question) -> object:
    """What the person says, asked again until it fits. Raises `Unanswered`."""
    form = form_of(question)
    say(f"\n{question.message}")
    if isinstance(form, YesNoForm):
        return _yes_or_no()
    while True:
        try:
            return form.read(_fields(form.schema))
        except BadInput as error:
            say(str(error))


def _yes_or_no() -> bool:
    while True:
        typed = _line("y or n: ").lower()
        if typed in {"y", "yes"}:
            return True
        if typed in {"n", "no"}:
            return False


def _fields(schema: Mapping[str, Any]) -> dict[str, object]:
    """What was typed for each field; a field that was left empty is not given."""
    found: dict[str, object] = {}
    for name, field in schema.get("properties", {}).items():
        choices = _choices(field)
        for number, choice in enumerate(choices, start=1):
            say(f"  {number}. {choice}")
        typed = _line(f"{_label(name, field)}: ")
        if typed:
            found[name] = _value(typed, field, choices)
    return found


def _label(name: str, field: Mapping[str, Any]) -> str:
    described = f"{name} ({field['description']})" if "description" in field else name
    default = field.get("default")
    return described if default is None else f"{described} [{default}]"


def _choices(field: Mapping[str, Any]) -> Sequence[object]:
    if field.get("type") == "boolean":
        return ()
    return cast("Sequence[object]", field.get("enum", ()))


def _value(typed: str, field: Mapping[str, Any], choices: Sequence[object]) -> object:
    """What was typed, as JSON where a text will not do; what cannot be read is left to be refused."""
    if typed.isdecimal() and 0 < int(typed) <= len(choices):
        return choices[int(typed) - 1]
    if field.get("type") == "boolean" and typed.lower() in {"y", "yes", "n", "no"}:
        return typed.lower().startswith("y")
    if field.get("type") == "string" or choices:
        return typed
    try:
        return json.loads(typed)
    except ValueError:
        return typed


def _line(prompt: str) -> str:
    """One line. The prompt goes to standard error, so that a result can be piped away."""
    print(prompt, end="", file=sys.stderr, flush=True)
    typed = sys.stdin.readline()
    if not typed:
        raise Unanswered
    return typed.strip()
