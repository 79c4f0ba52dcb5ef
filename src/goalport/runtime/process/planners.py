"""The planners, which choose the next action of a process. One class for each kind, and the table of them.

Code that depends on the kind of a planner calls `planner_for` and asks the planner; it never compares kinds. A new kind
is a class and an entry in `PLANNERS`, and its name in `goalport.agents.PlannerType`. Planners are in this package and
not in `goalport.agents.plan` because they read a process (what is pending, what failed), and because they may have to
wait, for a model for instance: `choose` is asynchronous. Below: the process. Above: `tick`, the platform.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol, cast

from pydantic import TypeAdapter

from goalport.agents.blackboard import DEFAULT_BINDING, related
from goalport.agents.domain import Action, Agent, Input, PlannerType, is_state
from goalport.agents.plan import (
    Available,
    Explanation,
    Fact,
    NoPlan,
    Operator,
    Plan,
    PlanGoal,
    Problem,
    Undecided,
    WorldState,
    best_step,
    explain,
    idleness,
    plan,
)
from goalport.base.errors import ModelError, Signal, TerminateAction, ToolError
from goalport.base.secrecy import hide
from goalport.base.words import excerpt, in_json, type_label, type_name, with_article
from goalport.models.llm import LlmOptions, Models
from goalport.runtime.ai import Ai, Interaction
from goalport.runtime.ai.output_type import output_schema
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.context import ActionContext, ActionOperation
from goalport.runtime.process.lifecycle import Failed, Outcome, Stuck, Terminated, Waiting
from goalport.runtime.process.process_options import ProcessOptions
from goalport.tools import Parameter, Tool, snake
from goalport.tools.naming import distinct
from goalport.tools.schemas import UNREADABLE


class Planner(Protocol):
    """A way to choose what a process does next. It has no state: one object serves all processes."""

    looks_ahead: bool
    """Whether it plans all steps to a goal, or only one step at a time.

    Several features need the whole plan: pruning of actions, running steps concurrently, finding the end of a loop, and
    evaluating conditions ahead. A planner of single steps evaluates conditions when it reaches them.
    """
    remark: str
    """A sentence that `goalport plan` adds to an explanation; empty: none."""

    def while_waiting(self, process: AgentProcess, problem: Problem) -> Problem:
        """Return the planning problem while people are asked: which results of pending actions count as present."""
        ...

    async def choose(self, process: AgentProcess, problem: Problem) -> Plan | Undecided | Outcome:
        """Return the steps to take, or a condition to evaluate first, or the outcome if there is nothing to do.

        After an `Undecided` it is called again with the condition's value, for the same step; a random choice must then
        give the same result.
        """
        ...

    def steps(self, process: AgentProcess, found: Plan, actual: WorldState) -> list[Operator]:
        """Return the steps of a plan to take now, concurrently; none if the plan is empty or has to wait for people.

        `actual` are the facts from which the plan was made.
        """
        ...


class Goap:
    """Plans the cheapest way to a goal and takes its first step (user guide, section 3.18)."""

    looks_ahead = True
    remark = ""

    def while_waiting(self, process: AgentProcess, problem: Problem) -> Problem:
        """The planning problem with the effects of pending actions, as if people had answered positively."""
        promises = {fact for name in process.pending for fact in process.scope.add_effects[name]}
        start = replace(
            problem.start,
            true=problem.start.true | promises,
            unknown=problem.start.unknown - promises,
            undecidable=problem.start.undecidable - promises,
        )
        return replace(problem, start=start)

    async def choose(self, process: AgentProcess, problem: Problem) -> Plan | Undecided | Outcome:
        found = process.scope.answer(problem, plan)
        if not isinstance(found, NoPlan):
            return found
        if not problem.goals:
            fix = f"Give it one, or run it with planner={PlannerType.written(goals=0)}."
            return Failed(f"{process.agent.name} has no goal to plan for. {fix}")
        return failed(process) or stuck(process, explain(problem, found))

    def steps(self, process: AgentProcess, found: Plan, actual: WorldState) -> list[Operator]:
        """One step, or with the option `concurrent` all that are possible and independent of one another."""
        ready = found.steps
        if process.pending:  # a step may need an answer; none may overtake a step that clears the blackboard
            clears = [process.scope.actions[step.action].settings.clear_blackboard for step in found.steps]
            upto = clears.index(True) + 1 if True in clears else len(clears)
            ready = [each for each in found.steps[:upto] if holds(each.requires.items(), actual)]
        steps = list(ready[:1])
        if steps and self.looks_ahead and process.options.concurrent and may_run_concurrently(process, steps[0]):
            for each in found.steps:
                is_free = may_run_concurrently(process, each) and holds(each.requires.items(), actual)
                if is_free and all(independent(each, other) for other in steps):
                    steps.append(each)
        return steps


class Utility(Goap):
    """Takes the most valuable action that is possible now; it needs no goal (user guide, section 3.18)."""

    looks_ahead = False
    remark = "A utility agent takes the best step of the moment: this is the cheapest way, and it may take another."

    def while_waiting(self, process: AgentProcess, problem: Problem) -> Problem:
        """The planning problem without the actions that wait for an answer; their results do not count yet."""
        return replace(problem, excluded=problem.excluded | process.pending)

    async def choose(self, process: AgentProcess, problem: Problem) -> Plan | Undecided | Outcome:
        found = process.scope.answer(problem, best_step)
        if not isinstance(found, NoPlan):
            return found
        if process.pending:
            return Waiting(process.open_questions)
        ran = dict.fromkeys(each.action for each in process.turn_history if each.status == "succeeded")
        done = f"Nothing is left to do after {', '.join(ran)}" if ran else "There is nothing to do"
        # In a turn in which actions have failed, another one may have done the work in their place.
        history = process.progress.history
        answered = process.options.turns and history and history[-1].status == "succeeded"
        failure = None if answered else failed(process)
        return failure or Stuck(f"{declined_actions(process)}{done}: {idleness(problem)}.")


def may_run_concurrently(process: AgentProcess, step: Operator) -> bool:
    """Whether a step may run together with others; not if it clears the blackboard, or has conditions or a trigger."""
    settings = process.scope.actions[step.action].settings
    return not (settings.clear_blackboard or settings.post or settings.trigger)


def independent(step: Operator, other: Operator) -> bool:
    """Whether two steps are of different actions, and neither changes what the other requires."""
    return step.action != other.action and not any(
        fact in second.requires and second.requires[fact] is not value
        for first, second in ((step, other), (other, step))
        for fact, value in first.effects.items()
    )


def holds(requires: Iterable[tuple[Fact, bool]], actual: WorldState) -> bool:
    """Whether all these requirements are met, or may be met because they are unknown."""
    return all(actual.allows(fact, value=value) for fact, value in requires)


def failed(process: AgentProcess) -> Failed | None:
    """The outcome of a process that could not continue because actions failed; None: none failed."""
    tried = tuple(process.progress.left_out.values())
    return Failed(". ".join(each.rstrip(".") for each in tried), tried) if tried else None


def stuck(process: AgentProcess, explanation: Explanation) -> Stuck:
    """The outcome of a process that cannot reach its goal, with the reasons in an explanation."""
    failed_conditions = process.progress.failed_conditions
    explanation = explanation.with_reasons(
        process.groups.why_unmet, lambda condition: failed_conditions.get(condition, "")
    )
    reason = declined_actions(process) + explanation.summary()
    gave_nothing = {each.action for each in process.turn_history if each.status == "declined"}
    missing = [each for failure in explanation.failures[:1] for each in failure.missing]
    held_back = dict.fromkeys(each.held_back for each in missing)
    names = [each for each in held_back if each and each not in gave_nothing]
    if names and all(held_back):  # only because they, or their outputs, count as done
        reason += (
            f" If {' and '.join(names)} should run now all the same, write `can_rerun=True` there; in a loop, write"
            " `clear_blackboard=True` on the action that begins each round anew."
        )
    return Stuck(reason, input_may_help=not explanation.lacks_only_groups)


def declined_actions(process: AgentProcess) -> str:
    """A sentence about the actions that returned nothing, followed by a space; empty if there are none."""
    declined = dict.fromkeys(each.action for each in process.turn_history if each.status == "declined")
    if not declined:
        return ""
    reasons = (reason for action, reason in process.progress.declined.items() if action in declined)
    why = "; ".join(reason.rstrip(".") for reason in reasons)
    declared = [
        f"{name} declares that it gives {with_article(action.outputs.type)}: perhaps a `return` is missing. "
        for name in declined
        if (action := process.scope.actions.get(name)) is not None and not action.outputs.may_decline
    ]
    return f"{', '.join(declined)} gave nothing{f' ({why})' if why else ''}. {''.join(declared)}"


_ROLE: Final = "supervisor"
_SHOWN: Final = 500
"""The most characters of an object that the model is shown."""
_SHOWN_SCHEMA: Final = 1_500
_SHOWN_OBJECTS: Final = 100
_ATTEMPTS: Final = 2
"""The most requests in a row to a model that calls no tool."""
_TASK: Final = (
    "You supervise the work towards a goal. Each tool is an action. Call those that bring the goal closer now, and"
    " several at once if none of them needs what another gives. Take what you pass from the objects below, and invent"
    " nothing. The action of the goal itself ends the work: if it is offered, call it when everything is there that it"
    " should be made of."
)


@dataclass(frozen=True, slots=True)
class _Choice:
    """An action that is possible now, if the model passes its missing inputs."""

    action: Action
    operator: Operator
    missing: tuple[Input, ...]
    """The inputs that the model has to pass."""
    optional: tuple[Input, ...]
    """The inputs that the model may pass: optional ones, and new ones for an action that runs once more."""
    goal: PlanGoal | None
    """The goal that the action reaches."""


class _Call(NamedTuple):
    """A call of the model: an action with the objects for its missing inputs."""

    choice: _Choice
    given: tuple[tuple[Input, object], ...]


class Supervisor:
    """Asks a model which actions to run; the goal's action runs when its inputs are on the blackboard."""

    looks_ahead = False
    remark = "A model chooses the steps of a supervisor agent: this is the cheapest way, and it may take another."

    def while_waiting(self, process: AgentProcess, problem: Problem) -> Problem:
        """The planning problem as it is: nothing is chosen while a person is asked."""
        return problem

    async def choose(self, process: AgentProcess, problem: Problem) -> Plan | Undecided | Outcome:
        reached = next((goal for goal in problem.goals if holds(goal.requires.items(), problem.start)), None)
        if reached is not None:
            return Plan(reached, (), 0.0, reached.value)
        choices = sorted(_choices(process, problem), key=lambda each: len(each.missing))
        under_way = process.progress.journals.keys() - process.pending
        begun = [each for each in choices if each.action.name in under_way and not each.missing]
        if process.pending and not begun:
            return Waiting(process.open_questions)
        needed = (fact for each in begun or choices for fact in each.operator.requires if fact in problem.start.unknown)
        if (asked := problem.system.cheapest(needed)) is not None:
            return Undecided(asked)
        if begun:  # actions that continue after an answer or a restart
            return _together(begun, problem)
        if not choices or not set(process.goals) - process.progress.left_out.keys():
            return failed(process) or Stuck(f"{declined_actions(process)}No action can run: {idleness(problem)}.")
        # can run. One that needs only what was there from the beginning the model has to choose: it knows when enough
        # was done.
        # The goal's action runs without asking the model if one of its inputs comes from another action, or if nothing
        # else can run. If it needs only the process's inputs, the model chooses it: it knows when enough was done.
        # can run. One that needs only what was there from the beginning the model has to choose: it knows when enough
        # was done.
        last = next((each for each in choices if each.goal is not None), None)
        if last is not None and len(process.goals) == 1 and not last.missing:
            made = any(_is_made(process, each, last.action) for each in last.action.inputs if each.required)
            if made or len(choices) == 1:
                return _together([last], problem)
        return await _decide(process, problem, choices)

    def steps(self, process: AgentProcess, found: Plan, actual: WorldState) -> list[Operator]:
        return list(found.steps)


def _choices(process: AgentProcess, problem: Problem) -> Iterable[_Choice]:
    """The actions that can run now, or with inputs from the model; each once, with the fewest missing inputs."""
    found: dict[str, _Choice] = {}
    goals, true = {goal.name: goal for goal in problem.goals}, problem.start.true
    for operator in problem.system.operators:
        action = process.scope.actions[operator.action]
        if action.name in problem.excluded:
            continue
        unmet = {fact for fact, value in operator.requires.items() if not problem.start.allows(fact, value=value)}
        absent = [each for each in action.inputs if each.required and _fact(each) in unmet]
        if len(set(map(_fact, absent))) < len(unmet) or not all(map(_can_be_given, absent)):
            continue
        goal = goals.get(action.name)  # the model must not invent inputs of it that another action makes
        if goal is not None and any(_is_made(process, each, action) for each in absent):
            continue
        missing = tuple({_fact(each): each for each in absent}.values())
        if action.name in found and len(found[action.name].missing) <= len(missing):
            continue
        again = action.name in process.progress.has_run
        free = (each for each in action.inputs if again or not (each.required or _fact(each) in true))
        may_be_given = (each for each in free if each not in missing and _can_be_given(each))
        optional = tuple(each for each in may_be_given if not _is_made(process, each, action))
        found[action.name] = _Choice(action, operator, missing, optional, goal)
    return found.values()


def _fact(needed: Input) -> Fact:
    return Available(needed.type, needed.binding)


def _can_be_given(needed: Input) -> bool:
    """Whether a model can write an object of this type."""
    return not is_state(needed.type) and _schema(needed.type) is not None


def _is_made(process: AgentProcess, needed: Input, by_others_than: Action) -> bool:
    """Whether another action makes an object of this type."""
    fact = _fact(needed)
    operators = (each for each in process.scope.system.operators if each.action != by_others_than.name)
    return any(each.effects.get(fact, False) for each in operators)


def _together(choices: Sequence[_Choice], problem: Problem) -> Plan:
    """The plan that takes these actions now."""
    steps = tuple(each.operator for each in choices)
    goal = choices[0].goal or problem.goals[0]
    return Plan(goal, steps, sum(each.cost for each in steps), sum(each.value for each in steps))


class _Rounds(ActionOperation):
    """Counts the requests to the supervisor's model, also those in which the model corrects its calls."""

    async def before_turn(self, tool: str, /) -> None:
        process, name = self._process, self._context.action
        asked = sum(each.action == name and each.process_id == process.id for each in process.ledger.entries)
        if not tool and asked >= process.options.max_rounds:
            raise _NoMoreRounds(f"The supervisor's model was asked {asked} times, and no more is allowed (max_rounds).")
        if not tool and (overrun := process.options.overrun(process)):
            raise TerminateAction(overrun)
        await super().before_turn(tool)


class _NoMoreRounds(Signal):
    """The model may not be asked again."""


async def _decide(process: AgentProcess, problem: Problem, choices: Sequence[_Choice]) -> Plan | Outcome:
    """Ask the model for actions, and put the objects that it passes on the blackboard."""
    ready = next((each for each in choices if each.goal is not None and not each.missing), None)
    name, calls = f"{process.agent.name}.{_ROLE}", list[_Call]()
    # A tool has the name of its method, or the full name if two methods have the same name.
    short = [each.action.short_name for each in choices]
    names = (
        name if short.count(name) == 1 else snake(each.action.name) for name, each in zip(short, choices, strict=True)
    )
    tools = [_tool(each, name, calls) for name, each in zip(distinct(names), choices, strict=True)]
    chosen = process.options.supervisor_llm
    if chosen is None:
        models = process.platform.service(Models)
        chosen = LlmOptions(role=_ROLE) if isinstance(models, Models) and _ROLE in models.roles else LlmOptions()
    prompt = _prompt(process)
    said = again = ""
    for _ in range(_ATTEMPTS):
        context = ActionContext(process, action=name)
        ai = Ai(process.platform.engine(_Rounds(context), process.groups), Interaction()).with_llm(chosen)
        try:
            with context.active():
                asked = ai.with_system_prompt(_TASK).with_tools(*tools).with_id(name)
                said = excerpt(await asked.generate_text(prompt + again), _SHOWN)
        except Signal as signal:
            last = ready if isinstance(signal, _NoMoreRounds) else None
            return Terminated(signal.reason) if last is None else _together([last], problem)
        except (ModelError, ToolError) as error:
            return Failed(f"The supervisor could not choose an action: {process.words_for(error)}")
        finally:
            process.ledger.unsettled.pop(name, None)
        if calls:
            return _plan(process, problem, calls)
        if ready is not None:
            return _together([ready], problem)
        if said:
            again = f"\n\nThe goal is not reached yet, and you called no tool. You said: {said}\nCall a tool now."
    return Stuck(f"The supervisor's model chose no action.{f' It said: {said}' if said else ''}")


def _tool(choice: _Choice, name: str, calls: list[_Call]) -> Tool:
    """The tool for an action, which appends each call to `calls` and ends the model's turn."""
    given = (*choice.missing, *choice.optional)
    named = (snake(type_label(each.type)) if each.binding == DEFAULT_BINDING else each.binding for each in given)
    inputs = dict(zip(distinct(named), given, strict=True))

    # Async, since threads would append the calls in any order; of two conflicting calls the first one is chosen.
    async def note(arguments: Mapping[str, object]) -> str:
        calls.append(
            _Call(choice, tuple((inputs[each], value) for each, value in arguments.items() if value is not None))
        )
        return "It runs now."

    parameters = [
        Parameter(each, wanted.type, f"{type_name(wanted.type)}, which is not there yet.")
        if wanted in choice.missing
        else Parameter(each, wanted.type, f"{type_name(wanted.type)}, or else what is there.", required=False)
        for each, wanted in inputs.items()
    ]
    action, kind = choice.action, choice.action.outputs.type
    there = len([each for each in action.inputs if each.required]) - len(choice.missing)
    ready = "All that it needs is there." if not choice.missing else f"{there} of its inputs are there already."
    ends = " It reaches the goal and ends the work." if choice.goal is not None else ""
    gives = "It gives no object."
    if kind is not None:
        schema = _schema(kind)
        shown = "." if schema is None else f": {excerpt(in_json(schema), _SHOWN_SCHEMA)}"
        gives = f"It gives {type_name(kind)}{shown}"
    description = f"{action.description}\n\n{ready}{ends} {gives}".strip()
    made = Tool.of(note, name=name, description=description, parameters=parameters)
    return replace(made, return_direct=True)


@lru_cache(maxsize=256)
def _schema(kind: object) -> Mapping[str, object] | None:
    """The JSON Schema of a type; None: it has none."""
    try:
        return output_schema(TypeAdapter[Any](cast("Any", kind)), kind, None)
    except UNREADABLE:
        return None


def _plan(process: AgentProcess, problem: Problem, calls: Sequence[_Call]) -> Plan:
    """The calls that can be made at once, as steps of a plan; their objects are put on the blackboard.

    Afterwards the model is asked again, so that a call that has to come later is not lost.
    """

    def go_together(call: _Call, other: _Call) -> bool:
        """Whether two calls can be made at the same time: neither changes an input of the other."""
        steps = call.choice.operator, other.choice.operator
        at_goal = call.choice.goal is not None or other.choice.goal is not None
        if at_goal or not independent(*steps) or not all(may_run_concurrently(process, each) for each in steps):
            return False
        return not any(
            related(given.type, wanted.type) and given.binding == wanted.binding and (given, value) not in second.given
            for first, second in ((call, other), (other, call))
            for given, value in first.given
            for wanted in second.choice.action.inputs
        )

    taken: list[_Call] = []
    for call in sorted(calls, key=lambda each: each.choice.goal is not None):
        if all(go_together(call, other) for other in taken):
            taken.append(call)
    for call in taken:
        for wanted, value in call.given:
            process.blackboard.declare(wanted.binding, value, wanted.type)
    return _together([call.choice for call in taken], problem)


def _prompt(process: AgentProcess) -> str:
    """The prompt for the model: the goal, the objects on the blackboard, and the actions that ran."""
    goals = [process.scope.goals[name] for name in process.goals]
    aims = [f"- {type_name(each.output) if each.output else each.short_name}: {each.description}" for each in goals]
    names = process.blackboard.state.names
    named = {id(each.value): f" {name}" for name, each in names.items() if name != DEFAULT_BINDING}
    entries = {id(each.value): each for each in process.blackboard.entries}
    objects = [
        f"- {type_name(entry.kind or type(entry.value))}{named.get(key, '')}:"
        f" {excerpt(hide(in_json(entry.value)[: 4 * _SHOWN]), _SHOWN)}"
        for key, entry in list(entries.items())[-_SHOWN_OBJECTS:]
    ]
    done = [
        f"{number}. {each.action}: {each.status}{f' ({each.error})' if each.error else ''}"
        for number, each in enumerate(process.progress.history, start=1)
    ]
    lines = ["# Goal", *aims, "", "# Objects that are there", *(objects or ["None."])]
    return "\n".join([*lines, "", "# What was done", *(done or ["Nothing yet."])])


PLANNERS: Final[Mapping[PlannerType, Planner]] = {
    PlannerType.GOAP: Goap(),
    PlannerType.UTILITY: Utility(),
    PlannerType.SUPERVISOR: Supervisor(),
}


def planner_for(agent: Agent, options: ProcessOptions | None = None) -> Planner:
    """The planner that the options name, else that of the agent."""
    return PLANNERS[(options.planner if options else None) or agent.planner]
