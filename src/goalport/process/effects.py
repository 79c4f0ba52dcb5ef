"""Applies the result of an action, or the answer to its question, to the blackboard and the progress of the process.

A result must be of the type that the action declares. Above: `execution`, which runs actions, and answers of people.
"""

from collections.abc import Collection
from traceback import clear_frames
from typing import cast

from goalport.blackboard import fits, matcher, related
from goalport.domain import Action, WaitFor, awaited, is_state, parts_of, promises_of
from goalport.errors import (
    NonRetryable,
)
from goalport.events import (
    StateEntered,
)
from goalport.process.agent_process import AgentProcess
from goalport.words import type_name, with_article

__all__ = ["as_declared", "declined", "leave_out", "take", "take_back_promises"]

_SOME_KINDS = 3
"""The number of classes of a collection's elements that an error message names."""


def leave_out(process: AgentProcess, action: Action, words: str, error: BaseException | None) -> None:
    """Note that an action has failed for good; later plans leave it out."""
    take_back_promises(process, action)
    process.progress.leave_out(action.name, f"{action.name} failed: {words}")
    process.fail(words, action.name, error)
    if process.failure is not None and process.failure.error is not None:
        clear_frames(process.failure.error.__traceback__)  # keep the lines, release the action's variables


def take_back_promises(process: AgentProcess, action: Action) -> None:
    """Set the conditions that an action declares in `post` to false, because it has failed."""
    for condition, value in promises_of(action.settings.post).items():
        if value and process.blackboard.get_condition(condition):
            process.blackboard.set_condition(condition, False)


def _open_states(process: AgentProcess) -> list[object]:
    """The visible states, each once. A state that returned itself is on the blackboard more than once."""
    return list({id(each): each for each in process.blackboard.objects if is_state(type(each))}.values())


def _enter(process: AgentProcess, entered: object, before: list[object]) -> None:
    """Hide the states that were open before; a state that returned itself stays visible, as this is no transition."""
    left = [each for each in before if each is not entered]
    for each in _open_states(process):
        if each is not entered:
            process.blackboard.hide(each)
    if process.listeners.attentive and (left or not before):
        names = tuple(type(each).__name__ for each in left)
        process.emit(StateEntered(type(entered).__name__, names, process_id=process.id))


def as_declared(action: Action, result: object) -> object:
    """Return the result of an action or answer if it is of the declared type. Raises `NonRetryable` if it is not."""
    declared = action.outputs.type
    if result is None or (declared is not None and matcher(declared)(result)):
        return result
    if action.outputs.may_wait and isinstance(result, WaitFor):
        wait = cast("WaitFor[object]", result)
        comes = awaited(wait)
        if comes is None or related(comes, declared):
            return wait
        came = f"it waits for {with_article(comes)}"
    else:
        came = f"it returned {with_article(_kind_in_words(result))}"
    raise NonRetryable(
        f"{action.origin} declares that it returns {type_name(declared)}, but {came}."
        f" Correct the annotation or the return value."
    )


def _kind_in_words(result: object) -> str:
    kind = type(result).__name__
    held = cast("Collection[object]", result) if isinstance(result, (list, tuple, set, frozenset)) else ()
    inside = list(dict.fromkeys(type(each).__name__ for each in held))[:_SOME_KINDS]
    return f"{kind}{' of ' if inside else ''}{' and '.join(inside)}"


def declined(action: Action, result: object) -> bool:
    return result is None and bool(action.outputs.exits)


def take(process: AgentProcess, action: Action, result: object, kind: object = None) -> None:
    """Note that an action has run, and put its result on the blackboard with its declared type.

    That is the type that the action declares, unless `kind` gives a more specific one.
    """
    blackboard = process.blackboard
    process.progress.complete(action.name, result)
    before = _open_states(process) if is_state(type(result)) else []
    if not declined(action, result):
        _keep_promises(process, action)
    if is_state(type(result)):
        _enter(process, result, before)
    if result is None:
        blackboard.last_entry = None
        return
    declared = action.outputs.type
    blackboard.declare(action.output_binding, result, kind if kind is not None and fits(kind, declared) else declared)
    for part, promised in parts_of(result):
        blackboard.declare(action.output_binding, part, promised)


def _keep_promises(process: AgentProcess, action: Action) -> None:
    blackboard = process.blackboard
    # Conditions that the action itself has stated keep their values; otherwise its `post` counts as kept.
    said = process.scope.conditions.keys() | blackboard.stated
    if action.settings.clear_blackboard:
        blackboard.clear()
        process.progress.start_anew()
    for condition, value in promises_of(action.settings.post).items():
        if condition not in said:
            blackboard.set_condition(condition, value)
