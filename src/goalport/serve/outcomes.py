"""How a process stands or has ended, told to a client that must decide what to do next: all words for it, in one place.

`answers` puts them on the wire.
"""

import json
from collections.abc import Iterator
from typing import Any, assert_never

from goalport.process import Completed, Failed, Killed, Outcome, Stuck, Terminated, Waiting
from goalport.serve.companions import CANCEL, CONFIRM, STATUS, SUBMIT
from goalport.serve.handle import Asked, Handle

__all__ = ["handle_in_words", "reason_of", "unannounced"]

_LONGEST_LOOK = 25


def reason_of(outcome: Outcome, goal: str) -> str | None:
    """Why there is no result, and what may help; None when there is one."""
    match outcome:
        case Completed():
            return None
        case Waiting(questions):
            return f"{goal} waits for a person to answer: {' '.join(_sentence(each.message) for each in questions)}"
        case Stuck(reason, input_may_help=False):
            return f"{goal} cannot be reached on this server. {_sentence(reason)} Tell whoever runs it."
        case Stuck(reason):
            return f"{goal} cannot be reached from what was given. {_sentence(reason)} Call it with other input."
        case Failed(reason, caller_mistake=True):
            return reason
        case Failed(reason):
            return f"{goal} failed. {_sentence(reason)} Calling it again unchanged may fail again."
        case Terminated(reason):
            return f"{goal} was ended before it was done. {_sentence(reason)} Nothing goes on."
        case Killed(reason):
            return f"{goal} was stopped. {_sentence(reason)} Nothing goes on; call it again if it is still wanted."
        case _:
            assert_never(outcome)


def handle_in_words(handle: Handle, goal: str) -> str:
    """What a handle means and which tool to call with it: all that its structured form says, and more."""
    return "\n".join(_handle(handle, goal))


def unannounced(goal: str) -> str:
    """What is said of a goal that asks a person although its publication excludes it."""
    return (
        f"{goal} has to ask a person, but is not published as a goal that may: an action of it asks in its middle, or"
        " an agent that it started does. It was stopped. Its author mends that with Export(long=True)."
    )


def _handle(handle: Handle, goal: str) -> Iterator[str]:
    do_not = f"Do not call {goal} again: that would start another."
    if handle.waiting:
        yield f"{goal} is not done: process {handle.process_id} waits for a person's answer. {do_not}"
    else:
        call = _call(STATUS, processId=handle.process_id, waitSeconds=_LONGEST_LOOK)
        yield f"{goal} is not done: process {handle.process_id} is still running. {do_not} To get the result, {call}"
    several = len(handle.questions) > 1
    for question in handle.questions:
        yield from ("", f"Question {question.id}: {question.message}", _answering(handle, question, several=several))
    yield from ("", f"To give it up, {_call(CANCEL, processId=handle.process_id)}")


def _answering(handle: Handle, question: Asked, *, several: bool) -> str:
    which = {"questionId": question.id} if several else {}
    if question.kind == "confirmation":
        call = _call(CONFIRM, processId=handle.process_id, confirmed=True, **which)
        return f"Ask the person; for a yes, {call} For a no, with confirmed false."
    schema = json.dumps(question.schema, ensure_ascii=False)
    call = _call(SUBMIT, processId=handle.process_id, formData={}, **which)
    return f"Ask the person; then {call} formData holds the answer, valid against this JSON Schema: {schema}"


def _call(tool: str, **arguments: Any) -> str:
    return f"call {tool} with {json.dumps(arguments)}."


def _sentence(text: str) -> str:
    stripped = text.strip()
    if not stripped:
        return ""
    return stripped if stripped[-1] in ".!?…" else f"{stripped}."
