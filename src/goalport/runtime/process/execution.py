"""Runs one action of a process, and applies its result, its failure, or a person's answer to the process.

Its arguments are objects from the blackboard, and services of the process and the platform. It is tried as often as its
retry policy says. A result must have the type that the action declares; so must an answer, which is the result of an
action that asked at its end. Below: `context`, which the code of an action works with. Above: `tick`, which decides
which actions run, and the platform, which receives answers.
"""

import inspect
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from logging import ERROR, INFO, getLogger
from traceback import clear_frames
from typing import Final, Protocol, cast, runtime_checkable

import anyio

from goalport.agents.blackboard import DEFAULT_BINDING, Blackboard, fits, matcher, related
from goalport.agents.domain import (
    Action,
    Injected,
    Input,
    Parameter,
    ProvidedInput,
    Resolved,
    Resolver,
    SomeOf,
    WaitFor,
    awaited,
    inputs_among,
    is_state,
    parts_of,
    promises_of,
)
from goalport.agents.domain.expressions import AccessDenied
from goalport.base.errors import (
    BadInput,
    DeploymentError,
    ModelError,
    NonRetryable,
    ProcessFailed,
    ReplanRequested,
    Signal,
    TerminateAgent,
    UnknownName,
    causes,
    leaves,
    signal_in,
)
from goalport.base.events import (
    ActionFinished,
    ActionRetried,
    ActionStarted,
    ActionStatus,
    PlanRejected,
    StateEntered,
)
from goalport.base.observe.spans import action_span, note_end, note_failure
from goalport.base.secrecy import hide
from goalport.base.words import message_of, type_name, with_article
from goalport.runtime.ai import Ai
from goalport.runtime.process.action_progress import ActionInvocation, Parked, Step, in_words
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.context import ActionContext, ActionOperation, OperationContext
from goalport.runtime.process.ledger import NOTHING
from goalport.runtime.process.lifecycle import Failed
from goalport.runtime.process.questions import Question, QuestionStatus
from goalport.runtime.process.sizes import estimated_size
from goalport.tools import Tool, ToolGroupRequirement, ToolResult

_log = getLogger(__name__)
_SHOWN_CLASSES: Final = 3
"""The number of classes of a collection's elements that an error message names."""
_RUN_SERVICES: Mapping[type, Callable[[ActionContext], object]] = {
    ActionContext: lambda context: context,
    OperationContext: lambda context: context,
    Blackboard: lambda context: context.blackboard,
    AgentProcess: lambda context: context.process,
    Ai: lambda context: context.ai,
}
SERVICE_TYPES: frozenset[type] = frozenset(_RUN_SERVICES)
"""The types that this package injects; they are not looked up on the blackboard."""


@runtime_checkable
class ArgumentResolver(Resolver, Protocol):
    """Fills the parameters that it supports; they are no preconditions of the action.

    It is passed to the platform among its services. Several are asked in order, before goalport's own resolution; the
    blackboard is tried last.
    """

    def resolve(self, parameter: inspect.Parameter, context: ActionContext, /) -> object:
        """Return the argument for a supported parameter; called each time an action, condition or cost is called."""
        ...


def missing(parameters: Iterable[Parameter], blackboard: Blackboard) -> list[str]:
    """The types of required inputs that are missing on the blackboard."""
    wanted = (each for each in inputs_among(parameters) if each.required)
    return [type_name(each.type) for each in wanted if _find(each, blackboard) is None]


async def fill(parameters: Sequence[Parameter], owner: object, context: ActionContext) -> dict[str, object]:
    """The arguments by parameter name. Services that have to be entered are entered first."""
    prepare = context.process.platform.prepare
    if prepare is not None:
        await prepare([each.type for each in parameters if isinstance(each, Injected | ProvidedInput)], owner)
    return {each.name: _argument(each, owner, context) for each in parameters}


def _argument(parameter: Parameter, owner: object, context: ActionContext) -> object:
    if isinstance(parameter, Input):
        found = _find(parameter, context.blackboard)
        return parameter.default if found is None else found
    if isinstance(parameter, Resolved):
        return cast("ArgumentResolver", parameter.resolver).resolve(parameter.parameter, context)
    if isinstance(parameter, ProvidedInput) and isinstance(owner, parameter.type):
        return owner
    of_run = _RUN_SERVICES.get(parameter.type)
    found = context.process.platform.service(parameter.type) if of_run is None else of_run(context)
    if found is None and isinstance(parameter, ProvidedInput):
        if parameter.required:
            raise DeploymentError(
                f"Expected the platform to have a service of type {parameter.type.__name__} for {parameter.name!r},"
                " but it has none. Give one: mark it with @service in a workspace; AgentPlatform(services=[…]) in a"
                " program."
            )
        return parameter.default
    return found


def _find(each: Input, blackboard: Blackboard) -> object | None:
    if each.parts:
        found: dict[str, object] = {}
        for part in each.parts:
            value = _find(part, blackboard)
            if value is None and part.required:
                return None
            if value is not None or part.default is None:
                found[part.name] = value
        return cast("type[object]", each.type)(**found)
    if each.binding == DEFAULT_BINDING:
        return blackboard.last(each.type)
    return blackboard.get(each.binding, cast("type[object]", each.type))


async def invoke_all(process: AgentProcess, actions: Sequence[Action]) -> Failed | None:
    """Run several actions concurrently. A failure of one does not affect the others, unless it ends the process."""
    ends: list[Failed | None] = []

    async def one(action: Action) -> None:
        ends.append(await invoke(process, action))

    async with anyio.create_task_group() as tasks:
        for action in actions:
            tasks.start_soon(one, action)
    return next((end for end in ends if end is not None), None)


@dataclass(slots=True)
class _Run:
    """One run of an action until it is over or parked, and how it ended."""

    started_at: datetime
    start: float
    planned: int
    """The number of actions of the process, those that ran and those planned, when it began."""
    status: ActionStatus = "succeeded"
    result: object = None
    error: Exception | None = None


async def invoke(process: AgentProcess, action: Action) -> Failed | None:
    """Run an action and record the result; an action that fails for good is excluded from later plans.

    A mistake of the caller does not lead to another plan: it ends the process with the returned outcome.
    """
    progress = process.progress
    number, planned = len(progress.history) + 1, len(progress.history) + len(process.plan)
    if process.action_end_unsaved:
        await process.checkpoint()
    journal = progress.begin(action.name)
    if not action.settings.repeatable:
        journal.running = True
        await process.store_steps()
    if process.listeners.attentive:
        process.emit(ActionStarted(action.name, number, planned, process_id=process.id))
    run = _Run(datetime.now(UTC), time.perf_counter(), planned)
    process.acting += 1
    try:
        if not process.traced:
            await _run(process, action, run)
        else:
            with action_span(action.name, agent=process.agent.name, process_id=process.id) as span:
                await _run(process, action, run)
                note_end(span, "action", run.status, process.ledger.unsettled.get(action.name, NOTHING).spent)
                if run.error is not None and not isinstance(run.error, Signal):
                    note_failure(span, run.error)
    except Parked:
        # A child that was answered meanwhile will not wake this action: then the action just begins again.
        child = next((each for each in journal.waits_for if not each.status.ended), None)
        if child is not None:
            progress.parked[action.name] = child
        journal.running = False
        # Its first trigger is kept, so that no other action reacts to that object.
        if action.settings.trigger is not None and process.blackboard.last_entry is not None:
            progress.triggers.setdefault(action.name, process.blackboard.last_entry)
            process.blackboard.clear_last_result()
        await process.checkpoint()
        return None
    finally:
        process.acting -= 1
    await _conclude(process, action, run)
    # Look for a mistake of the caller: in this action, in a sub-process, or an access that was refused.
    expected: type[BadInput] = BadInput
    for each in causes(run.error):
        mistake = next((leaf for leaf in leaves(each) if isinstance(leaf, expected)), None)
        if mistake is not None:
            return Failed(hide(message_of(mistake)), caller_mistake=True)
        if not isinstance(each, ProcessFailed):
            expected = AccessDenied
    return None


async def _conclude(process: AgentProcess, action: Action, run: _Run) -> None:
    """Record how an action ended, apply its result or failure to the process, and store that."""
    progress, seconds = process.progress, time.perf_counter() - run.start
    journal = progress.end(action.name, f"{action.name} is over, which had started it.")
    journal.running, steps = False, tuple[Step, ...]()
    if process.platform.keep_journals:
        steps = tuple(
            Step(kind, name, getattr(value, "id", None) if kind in {"question", "approval", "child"} else value)
            for kind, name, value in journal.steps
        )
    for question in process.questions.open:
        if question.in_action and question.action == action.name:
            process.withdraw_question(question)
    cost, words = process.ledger.unsettled.pop(action.name, NOTHING), None
    if run.error is not None:
        words = run.error.reason if isinstance(run.error, Signal) else process.words_for(run.error)
    said = run.status, words, cost, journal.attempts, steps, tuple(journal.missing.values())
    progress.history.append(ActionInvocation(action.name, run.started_at, seconds, *said))
    _apply(process, action, run, words)
    if process.listeners.attentive:
        done = len(progress.history), run.planned, run.status, seconds, words
        process.emit(ActionFinished(action.name, *done, process_id=process.id))
    if process.durable:  # the goal's action probably ends the process, whose end is stored anyway
        at_goal = process.goal is not None and process.goal.action == action.name
        process.action_end_unsaved = at_goal and run.status == "succeeded"
        if not process.action_end_unsaved:
            await process.checkpoint()


async def _run(process: AgentProcess, action: Action, run: _Run) -> None:
    try:
        result = as_declared(action, await _attempts(process, action))
    except Signal as signal:
        run.status, run.error = "replanned" if isinstance(signal, ReplanRequested) else "terminated", signal
        return
    except Exception as failure:
        if isinstance(failure, ModelError):
            _log.info("Process %s: %s failed and is left out: %s", process.id, action.name, in_words(failure))
            _log.debug("Where the model failed:", exc_info=True)
        elif not isinstance(failure, BadInput):
            # If callers are referred to the log, the log must have it at any level.
            level = INFO if process.platform.tells_errors else ERROR
            _log.log(level, "Process %s: %s failed and is left out.", process.id, action.name, exc_info=True)
        run.status, run.error = "failed", failure
        return
    if isinstance(result, SomeOf) and next(parts_of(result), None) is None:
        result = None
    # An action that declares a result may return None, with a reason or without one.
    run.status, run.result = "declined" if result is None and action.outputs.exits else "succeeded", result


def _apply(process: AgentProcess, action: Action, run: _Run, words: str | None) -> None:
    """Apply the result or failure of an action to the process."""
    result, progress = run.result, process.progress
    match run.error:
        case None if isinstance(result, WaitFor):
            if process.options.ephemeral:
                _leave_out(process, action, "an ephemeral process cannot ask people: nobody would find it.", None)
            else:  # it continues with actions that do not need the answer
                process.blackboard.clear_last_result()
                process.ask(action.name, cast("WaitFor[object]", result))
        case None:
            _apply_result(process, action, result)
        case ReplanRequested(reason=reason) if action.name in progress.replanned:
            words = f"{action.name} asked for another plan again, and nothing else has run since: {reason}"
            progress.left_out[action.name] = words
        case ReplanRequested(objects=objects, update=update, reason=reason):
            progress.replanned.add(action.name)
            for value in objects:
                process.blackboard.add(value)
            for name, value in update.items():
                process.blackboard.bind(name, value)
            progress.skipped |= {action.name}
            process.emit(PlanRejected(action.name, reason, process_id=process.id))
        case TerminateAgent(reason=reason):
            process.terminate(reason)
        case Signal(reason=reason) if action.name in process.scope.goals and not action.outputs.exits:
            # A goal that only requires its action to have run is not reached by one that ended early.
            progress.left_out[action.name] = f"{action.name} ended early: {reason}"
        case Signal():
            _apply_result(process, action, None)
        case _:
            _leave_out(process, action, words or "", run.error)


def _apply_result(process: AgentProcess, action: Action, result: object, kind: object = None) -> None:
    """Note that an action has run, and put its result on the blackboard as the type that the action declares.

    `kind` is a more specific type, if one is known.
    """
    blackboard, progress, post = process.blackboard, process.progress, action.settings.post
    progress.has_run.add(action.name)
    progress.replanned.clear()
    progress.results[action.name] = result
    enters = is_state(type(result))
    before = _open_states(process) if enters else []
    if result is not None or not action.outputs.exits:
        # Conditions that the action itself has set keep their values.
        decided = process.scope.conditions.keys() | blackboard.stated if post else ()
        if action.settings.clear_blackboard:
            blackboard.clear()
            progress.has_run.clear()
        for condition, value in promises_of(post).items() if post else ():
            if condition not in decided:
                blackboard.set_condition(condition, value)
    if enters:  # earlier states are left; a state that returned itself stays, since that is no transition
        left = tuple(type(each).__name__ for each in before if each is not result)
        for each in _open_states(process):
            if each is not result:
                blackboard.hide(each)
        if process.listeners.attentive and (left or not before):
            process.emit(StateEntered(type(result).__name__, left, process_id=process.id))
    if result is None:
        blackboard.clear_last_result()
        return
    declared = action.outputs.type
    blackboard.declare(action.output_binding, result, kind if kind is not None and fits(kind, declared) else declared)
    for part, promised in parts_of(result):
        blackboard.declare(action.output_binding, part, promised)


def _open_states(process: AgentProcess) -> list[object]:
    """The visible states, each once. A state that returned itself is on the blackboard more than once."""
    return list({id(each): each for each in process.blackboard.of_classes(is_state)}.values())


def _leave_out(process: AgentProcess, action: Action, words: str, error: BaseException | None) -> None:
    """Note that an action has failed for good; later plans exclude it."""
    _retract_post_conditions(process, action)
    process.progress.left_out[action.name] = f"{action.name} failed: {words}"
    process.fail(words, action.name, error)
    if process.failure is not None and process.failure.error is not None:
        clear_frames(process.failure.error.__traceback__)  # keep the lines, release the action's variables


def _retract_post_conditions(process: AgentProcess, action: Action) -> None:
    """Set the conditions that an action declares in `post` to false, because it has failed."""
    for condition, value in promises_of(action.settings.post).items():
        if value and process.blackboard.get_condition(condition):
            process.blackboard.set_condition(condition, False)


async def _attempts(process: AgentProcess, action: Action) -> object:
    """Try an action as often as its retry policy says, and return its result."""
    policy = action.settings.retry or process.platform.retry
    delays, attempt = policy.delays(), 0
    while True:
        attempt += 1
        try:
            return await _attempt(process, action)
        except Exception as error:
            delay = None if isinstance(error, Signal) or not policy.retries(error) else next(delays, None)
            if delay is None or process.end_requested is not None:
                raise
            _retract_post_conditions(process, action)
            process.emit(ActionRetried(action.name, attempt, delay, process.words_for(error), process_id=process.id))
            for question in process.progress.journals[action.name].forget_work():
                process.withdraw_question(question)
            await process.store_steps()  # what the attempt has cost
            await process.pause(delay)
            if process.end_requested is not None:
                raise


async def _attempt(process: AgentProcess, action: Action) -> object:
    context = ActionContext(process, action=action.name)
    process.blackboard.forget_stated()
    process.progress.declined.pop(action.name, None)
    context.journal.begin()
    try:
        with context.active():
            result = await _call(process, action, context)
    except BaseException as end:
        _abandon(context, end)
        raise
    if context.journal.parked:
        context.abandoned = True
        raise Parked
    # Storing and sending a result takes several times its memory, which other calls would lack.
    if (size := estimated_size(result)) > process.platform.max_object_bytes:
        raise NonRetryable(
            f"The result of {action.name} takes about {size / 2**20:,.0f} MiB of memory, and may take"
            f" {process.platform.max_object_bytes / 2**20:,.0f} (max_object_bytes). Keep it in a file, and say where."
        )
    return result


async def _tools(process: AgentProcess, action: Action, operation: ActionOperation) -> tuple[Tool, ...]:
    """The tools of an action, after sign-in. Raises `NonRetryable` if a required tool group is missing."""
    groups, seconds = process.groups, process.options.tool_delay
    for each in (*map(ToolGroupRequirement, action.settings.tool_groups), *action.requirements):
        await groups.obtain(each)
    for each in action.requirements:
        # A group that became unmet after planning is not refused here: its tools report what is wrong.
        if groups.unmet(each) is None and (why := groups.missing(each)) is not None:
            raise NonRetryable(f"{action.name} cannot run. {why}")
    for role in action.roles:
        if why := groups.lacking(role):
            operation.note_missing(role, why)
    found = tuple(tool for _, tool in groups.tools_of(action.roles))

    async def after_delay(inside: Tool, arguments: Mapping[str, object]) -> ToolResult:
        await anyio.sleep(seconds)
        return await inside.call(arguments)

    return tuple(each.with_layer(after_delay) for each in found) if seconds > 0 else found


async def _call(process: AgentProcess, action: Action, context: ActionContext) -> object:
    arguments = await fill(action.parameters, action.owner, context)
    for rule in action.access:  # a rule that cannot be evaluated denies access
        try:
            lacking = rule.lacking(process.caller, arguments)
        except Exception as error:
            raise AccessDenied(action.name, f"that {rule.text!r} can be decided ({in_words(error)})") from error
        if lacking:
            raise AccessDenied(action.name, lacking)
    if action.roles:
        context.tools = await _tools(process, action, ActionOperation(context))
    return await context.call(action.function, **arguments)


def _abandon(context: ActionContext, end: BaseException) -> None:
    """Raise the exception that an attempt has to end with instead of `end`, if there is one.

    A parked attempt ends with `Parked`, even if its code catches that. If something else failed in it at the same time,
    that failure is raised.
    """
    context.abandoned, signal = True, signal_in(end)
    parts = (leaf for each in causes(end, implicit=True) for leaf in leaves(each))
    if isinstance(signal, TerminateAgent) or not any(isinstance(each, Parked) for each in parts):
        if signal is not None and signal is not end:
            raise signal from end
    elif context.journal.parked:
        raise Parked
    else:
        raise NonRetryable("It kept an earlier attempt's wait for an answer. Ask anew in each attempt.") from None


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
    """A question and the process that asked it: `process` or one of its sub-processes.

    None stands for the only open question. Raises `UnknownName`, and `BadInput` if no question or several are open.
    """
    everywhere = [(each, question) for each in process.subtree for question in each.questions]
    wanted = [
        (each, question)
        for each, question in everywhere
        if (question.status == "open" if question_id is None else question.id == question_id)
    ]
    if len(wanted) == 1:
        return wanted[0]
    if question_id is not None:
        raise UnknownName("question", question_id, [question.id for _, question in everywhere])
    if not wanted:
        raise BadInput("No question is open, so nothing can be answered.")
    listed = ", ".join(f"{question.id} ({question.message})" for _, question in wanted)
    raise BadInput(f"{len(wanted)} questions are open. Say which is answered: {listed}.")


def settle(process: AgentProcess, question: Question, response: object, declined: str) -> None:
    """Apply a person's response to a question of a process; a text in `declined` is the reason for a no.

    Raises `BadInput` if the process has ended, or for an answer of the wrong type (the question stays open then), and
    `AlreadyAnswered`.
    """
    if process.status.ended and question.status == "open":
        raise BadInput(f"Process {process.id} has ended: {process.status}. Nothing more can be answered.")
    accepted = None if declined else question.validated(response)
    if accepted is None:
        decline(process, question, declined or "The answer was no.")
        return
    process.settle_question(question, "answered", answer=accepted)
    if question.in_action:
        return
    action = process.scope.actions[question.action]
    try:
        _apply_result(process, action, as_declared(action, accepted), awaited(question.wait))
    except NonRetryable as failure:
        _leave_out(process, action, process.words_for(failure), failure)


def decline(process: AgentProcess, question: Question, reason: str, status: QuestionStatus = "declined") -> None:
    """Settle a question with a no. Raises `AlreadyAnswered` if it was settled before.

    If an action asked at its end, later plans exclude it; an action that asked in its middle continues and decides.
    """
    process.settle_question(question, status, reason=reason)
    if not question.in_action:
        process.progress.left_out[question.action] = f"{question.action} was declined: {reason.rstrip('.')}"
