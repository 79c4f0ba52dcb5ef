"""The effects of actions: what a result, a failure, or a person's answer changes in the process.

A result must be of the type that the action declares, and so must an answer, which becomes the result of an action that
asked at its end. Below: the process and its questions. Above: `execution`, which runs actions, and the platform, which
receives answers.
"""

from collections.abc import Collection, Coroutine
from traceback import clear_frames
from typing import cast

from goalport.agents.blackboard import fits, matcher, related
from goalport.agents.domain import Action, WaitFor, awaited, is_state, parts_of, promises_of
from goalport.base.errors import BadInput, NonRetryable, UnknownName
from goalport.base.events import StateEntered
from goalport.base.words import type_name, with_article
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.questions import Question, QuestionStatus

_SHOWN_CLASSES = 3
"""The number of classes of a collection's elements that an error message names."""


def apply_result(process: AgentProcess, action: Action, result: object, kind: object = None) -> None:
    """Note that an action has run, and put its result on the blackboard with its declared type.

    That is the type that the action declares, unless `kind` gives a more specific one.
    """
    blackboard = process.blackboard
    process.progress.complete(action.name, result)
    enters = is_state(type(result))
    before = _open_states(process) if enters else []
    if not gave_nothing(action, result):
        # Conditions that the action itself has stated keep their values.
        post = action.settings.post
        decided = process.scope.conditions.keys() | blackboard.stated if post else ()
        if action.settings.clear_blackboard:
            blackboard.clear()
            process.progress.start_anew()
        for condition, value in promises_of(post).items() if post else ():
            if condition not in decided:
                blackboard.set_condition(condition, value)
    if enters:
        _enter_state(process, result, before)
    if result is None:
        blackboard.clear_last_result()
        return
    declared = action.outputs.type
    blackboard.declare(action.output_binding, result, kind if kind is not None and fits(kind, declared) else declared)
    for part, promised in parts_of(result):
        blackboard.declare(action.output_binding, part, promised)


def gave_nothing(action: Action, result: object) -> bool:
    """Whether an action that declares a result has returned None."""
    return result is None and bool(action.outputs.exits)


def _open_states(process: AgentProcess) -> list[object]:
    """The visible states, each once. A state that returned itself is on the blackboard more than once."""
    return list({id(each): each for each in process.blackboard.of_classes(is_state)}.values())


def _enter_state(process: AgentProcess, entered: object, before: list[object]) -> None:
    """Hide the states that were open before; a state that returned itself stays visible, as this is no transition."""
    left = [each for each in before if each is not entered]
    for each in _open_states(process):
        if each is not entered:
            process.blackboard.hide(each)
    if process.listeners.attentive and (left or not before):
        names = tuple(type(each).__name__ for each in left)
        process.emit(StateEntered(type(entered).__name__, names, process_id=process.id))


def leave_out(process: AgentProcess, action: Action, words: str, error: BaseException | None) -> None:
    """Note that an action has failed for good; later plans leave it out."""
    retract_post_conditions(process, action)
    process.progress.leave_out(action.name, f"{action.name} failed: {words}")
    process.fail(words, action.name, error)
    if process.failure is not None and process.failure.error is not None:
        clear_frames(process.failure.error.__traceback__)  # keep the lines, release the action's variables


def retract_post_conditions(process: AgentProcess, action: Action) -> None:
    """Set the conditions that an action declares in `post` to false, because it has failed."""
    for condition, value in promises_of(action.settings.post).items():
        if value and process.blackboard.get_condition(condition):
            process.blackboard.set_condition(condition, False)


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
        if hasattr(result, "__await__"):
            if isinstance(result, Coroutine):
                result.close()  # otherwise Python warns of it a second time, later and elsewhere
            words = f"{action.origin} returned something that is still to be awaited. Write `await` before it."
            raise NonRetryable(words)
        came = f"it returned {with_article(type(result).__name__)}"
        if isinstance(result, (list, tuple, set, frozenset)) and result:
            elements = cast("Collection[object]", result)
            classes = list(dict.fromkeys(type(each).__name__ for each in elements))[:_SHOWN_CLASSES]
            came = f"{came} of {' and '.join(classes)}"
    raise NonRetryable(
        f"{action.origin} declares that it returns {type_name(declared)}, but {came}."
        f" Correct the annotation or the return value."
    )


def find_question(process: AgentProcess, question_id: str | None) -> tuple[AgentProcess, Question]:
    """A question and the process that asked it, which may be one that an action of `process` started.

    None stands for the only open question. Raises `UnknownName`, and `BadInput` if there is no open one or several.
    """
    everywhere = _questions(process)
    if question_id is None:
        open_ = [pair for pair in everywhere if pair[1].status == "open"]
        if not open_:
            raise BadInput("No question is open, so nothing can be answered.")
        if len(open_) > 1:
            listed = ", ".join(f"{question.id} ({question.message})" for _, question in open_)
            raise BadInput(f"{len(open_)} questions are open. Say which is answered: {listed}.")
        return open_[0]
    found = next((pair for pair in everywhere if pair[1].id == question_id), None)
    if found is None:
        raise UnknownName("question", question_id, [question.id for _, question in everywhere])
    return found


def _questions(process: AgentProcess) -> list[tuple[AgentProcess, Question]]:
    own = [(process, question) for question in process.questions]
    return own + [pair for child in process.children for pair in _questions(child)]


def settle(process: AgentProcess, question: Question, response: object, declined: str) -> None:
    """Take a person's response to a question of a process, or with the reason in `declined` their no.

    Raises `BadInput` if the process has ended or for an answer of another type, which leaves the question open, and
    `AlreadyAnswered`.
    """
    if process.status.ended and question.status == "open":
        raise BadInput(f"Process {process.id} has ended: {process.status}. Nothing more can be answered.")
    if declined:
        decline(process, question, declined)
        return
    accepted = question.validated(response)
    if accepted is None:
        decline(process, question, "The answer was no.")
        return
    process.settle_question(question, "answered", answer=accepted)
    if question.in_action:
        return
    action = process.scope.actions[question.action]
    try:
        apply_result(process, action, as_declared(action, accepted), awaited(question.wait))
    except NonRetryable as failure:
        leave_out(process, action, process.words_for(failure), failure)


def decline(process: AgentProcess, question: Question, reason: str, status: QuestionStatus = "declined") -> None:
    """Settle a question with a no. Raises `AlreadyAnswered` if it was settled before.

    An action that asked at its end is left out of later plans; one that asked in its middle continues and decides.
    """
    process.settle_question(question, status, reason=reason)
    if not question.in_action:
        process.progress.leave_out(question.action, f"{question.action} was declined: {reason.rstrip('.')}")
