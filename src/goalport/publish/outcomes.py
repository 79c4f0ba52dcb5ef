"""How a process stands or has ended, told to a client that must decide what to do next: all words for it, in one place.

`answers` puts them on the wire.
"""

import json
from collections.abc import Iterator
from typing import Final, assert_never

from goalport.process import Completed, Failed, Killed, Outcome, Stuck, Terminated, Waiting
from goalport.publish.handle import Asked, Handle, LargeResult
from goalport.publish.texts import counted

__all__ = ["TEXT_CUT", "cut_in_words", "handle_in_words", "large_in_words", "reason_of", "unannounced"]

TEXT_CUT: Final = "\n\n[This text is cut; the structured content is whole.]"
"""What stands below a text that is only the beginning of a result."""


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


def handle_in_words(handle: Handle) -> str:
    """What a handle means and which tool to call with it: all that its structured form says, and more."""
    return "\n".join(_handle(handle))


def unannounced(goal: str) -> str:
    """What is said of a goal that asks a person although its publication excludes it."""
    return (
        f"{goal} has to ask a person, but is not published as a goal that may: an action of it asks in its middle, or"
        " an agent that it started does. It was stopped. Its author mends that with Export(long=True)."
    )


def large_in_words(large: LargeResult, goal: str) -> str:
    """That a result is there, and how it is read."""
    return (
        f"{goal} was done. Its result is too large for one answer: it has {counted(large.pages, 'page')}. Do not call"
        f" {goal} again. To read the first page, {large.reading(1)} A client that reads resources finds the pages at"
        f" {large.uri}/1 and so on, and the whole at {large.uri} (over SSE, clients refuse what is larger than 1 MiB)."
    )


def cut_in_words(large: LargeResult) -> str:
    """What stands below a text that is only the beginning of a goal's result."""
    return f"{TEXT_CUT[:-1]} To read it in pages, {large.reading(1)}]"


def _handle(handle: Handle) -> Iterator[str]:
    goal, process = handle.goal, handle.process_id
    do_not = f"Do not call {goal} again: that would start another."
    if handle.waiting:
        yield f"{goal} is not done: process {process} waits for a person's answer. {do_not}"
    else:
        yield f"{goal} is not done: process {process} is still running. {do_not} To get the result, {handle.looking}"
    yield from handle.waits_for
    for question in handle.questions:
        yield from ("", f"Question {question.id}: {question.message}", _answering(handle, question))
    yield from ("", f"To give it up, {handle.cancelling}")


def _answering(handle: Handle, question: Asked) -> str:
    call = handle.answering(question)
    if question.kind == "confirmation":
        return f"Ask the person; for a yes, {call} For a no, with confirmed false."
    schema = json.dumps(question.schema, ensure_ascii=False)
    return f"Ask the person; then {call} formData is their answer, valid against this JSON Schema: {schema}"


def _sentence(text: str) -> str:
    stripped = text.strip()
    if not stripped:
        return ""
    return stripped if stripped[-1] in ".!?…" else f"{stripped}."
