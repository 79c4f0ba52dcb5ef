"""Problem families of the planner, and `python -m benchmarks.planner`: what planning over each of them takes.

The families are plain functions that give a `Problem`: tests count how far the search looks in them, `planning` times
the rows of docs/performance.md, and the table here shows the whole range, hard cases among them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import median
from time import perf_counter

from goalport.agents.plan import (
    Available,
    Fact,
    HasRun,
    Holds,
    NoPlan,
    Operator,
    Plan,
    PlanGoal,
    PlanningSystem,
    Problem,
    Undecided,
    WorldState,
    explain,
    plan,
)

Answer = Plan | Undecided | NoPlan


def typed_action(name: str, takes: tuple[str, ...], gives: str, cost: float = 0.1) -> Operator:
    """An action as a class of a user's gives it: guarded so that it neither runs twice nor makes what is there."""
    needs: dict[Fact, bool] = {Available(kind): True for kind in takes}
    guards: dict[Fact, bool] = {HasRun(name): False, Available(gives): False}
    return Operator(name, name, needs | guards, {Available(gives): True, HasRun(name): True}, cost)


def typed_goal(name: str, output: str) -> PlanGoal:
    return PlanGoal(name, {Available(output): True, HasRun(name): True})


def started_with(*kinds: str) -> WorldState:
    return WorldState(frozenset(Available(kind) for kind in kinds))


def chain_with_irrelevant(length: int = 10, irrelevant: int = 60, cost: float = 1.0) -> Problem:
    """A chain, and actions that can run at once and lead nowhere."""
    chain = [typed_action(f"step_{i}", (f"T{i}",), f"T{i + 1}", cost) for i in range(length)]
    noise = [typed_action(f"noise_{i}", ("T0",), f"N{i}", cost) for i in range(irrelevant)]
    goal = typed_goal(f"step_{length - 1}", f"T{length}")
    return Problem(PlanningSystem(noise + chain), started_with("T0"), (goal,))


def platform_of_agents(agents: int = 50, actions: int = 4, cost: float = 0.1) -> Problem:
    """Agents of some chained actions each, all of which can begin from one input."""
    operators = [
        typed_action(f"a{agent}_{i}", ("Input" if i == 0 else f"A{agent}_{i}",), f"A{agent}_{i + 1}", cost)
        for agent in range(agents)
        for i in range(actions)
    ]
    goal = typed_goal(f"a{agents - 1}_{actions - 1}", f"A{agents - 1}_{actions}")
    return Problem(PlanningSystem(operators), started_with("Input"), (goal,))


def crime(enemies: int = 1, random_actions: int = 0, seed: int = 7) -> Problem:
    """Enemies to be rid of without legal peril: money and drugs are used up, and most of what one does is illegal."""
    operators = [
        deed("cook_drugs", 1.2, {}, {"drugs": True}),
        deed("sell_drugs", 1.2, {"drugs": True}, {"drugs": False, "money": True}),
        deed("buy_gun", 1, {"money": True}, {"money": False, "gun": True}),
        deed("bribe_cop", 2, {"money": True}, {"money": False, "peril": False}),
        deed("buy_poison", 3, {"money": True}, {"money": False, "poison": True}),
    ]
    for enemy in range(enemies):
        operators.append(deed(f"shoot_enemy_{enemy}", 1, {"gun": True}, {f"dead_{enemy}": True}))
        operators.append(deed(f"poison_enemy_{enemy}", 1, {"poison": True}, {f"dead_{enemy}": True}))
    dead: dict[Fact, bool] = {Holds(f"dead_{enemy}"): True for enemy in range(enemies)}
    goal = PlanGoal("enemies dead", dead | {Holds("peril"): False}, value=10)
    return Problem(PlanningSystem(operators + list(random_deeds(random_actions, seed))), WorldState(), (goal,))


def deed(name: str, cost: float, requires: Mapping[str, bool], effects: Mapping[str, bool]) -> Operator:
    """Something that puts one in legal peril, unless its effects say otherwise."""
    return Operator(name, name, conditions(requires), conditions({"peril": True, **effects}), cost)


def conditions(values: Mapping[str, bool]) -> dict[Fact, bool]:
    return {Holds(name): value for name, value in values.items()}


def random_deeds(count: int, seed: int) -> Iterator[Operator]:
    """Actions over conditions of their own, one in ten of which can run at once."""
    random = Random(seed)  # noqa: S311
    for number in range(count):
        needed = {} if random.random() < 0.1 else {f"r{random.randrange(count)}": True}
        given = {f"r{random.randrange(count)}": random.random() < 0.8}
        cost = round(random.uniform(0.1, 3), 1)
        yield Operator(f"random_{number}", f"random_{number}", conditions(needed), conditions(given), cost)


def random_dag(actions: int = 1000, window: int = 300, inputs: int = 2, spares: int = 0, seed: int = 11) -> Problem:
    """Typed actions that each make a type from those of some earlier ones: about two conditions per action.

    Each type is made by one of them, except that as many as there are spares are second ways to some of the types.
    """
    random = Random(seed)  # noqa: S311
    kinds = actions - spares
    operators: list[Operator] = []
    for number, kind in enumerate((*range(kinds), *random.sample(range(kinds - 1), spares))):
        earlier = range(max(0, kind - window), kind)
        taken = random.sample(earlier, min(len(earlier), random.randint(1, inputs)))
        takes = tuple(f"T{each}" for each in taken) or ("Input",)
        operators.append(typed_action(f"act_{number}", takes, f"T{kind}", round(random.uniform(0, 1), 2)))
    goal = typed_goal(f"act_{kinds - 1}", f"T{kinds - 1}")
    return Problem(PlanningSystem(operators), started_with("Input"), (goal,))


def layers(depth: int = 10, width: int = 50, ways: int = 2, inputs: int = 2, seed: int = 1) -> Problem:
    """Types in layers, each made in several ways from some of the layer below: choices that depend on each other."""
    random = Random(seed)  # noqa: S311
    operators: list[Operator] = []
    for layer in range(depth):
        for number in range(width):
            for way in range(ways):
                below = sorted({random.randrange(width) for _ in range(random.randint(1, inputs))})
                takes = tuple(f"T{layer - 1}_{each}" for each in below) if layer else ("Input",)
                cost = round(random.uniform(0, 1), 2)
                operators.append(typed_action(f"act_{layer}_{number}_{way}", takes, f"T{layer}_{number}", cost))
    goal = PlanGoal("the last", {Available(f"T{depth - 1}_0"): True})
    return Problem(PlanningSystem(operators), started_with("Input"), (goal,))


def states(count: int = 150) -> Problem:
    """A way through states: each is left by an action of its own, and entering one hides all others."""
    kinds = [f"S{number}" for number in range(count + 1)]
    hidden: dict[Fact, bool] = {Available(kind): False for kind in kinds}
    operators = [typed_action(f"leave_{here}", (here,), there) for here, there in pairwise(kinds)]
    entering = [replace(each, effects={**hidden, **each.effects}) for each in operators]
    return Problem(PlanningSystem(entering), started_with(kinds[0]), (typed_goal(operators[-1].name, kinds[-1]),))


def after_a_step(problem: Problem) -> Problem:
    """The problem when the first step of its plan has gone as foreseen."""
    return carried_out(problem, 1)


def halfway(problem: Problem) -> Problem:
    """The problem when half of the steps of its plan have gone as foreseen."""
    return carried_out(problem, len(planned(problem).steps) // 2)


def carried_out(problem: Problem, count: int) -> Problem:
    true = set(problem.start.true)
    for step in planned(problem).steps[:count]:
        for fact, value in step.effects.items():
            (true.add if value else true.discard)(fact)
    return replace(problem, start=replace(problem.start, true=frozenset(true)))


def planned(problem: Problem) -> Plan:
    found = plan(problem)
    assert isinstance(found, Plan)
    return found


def after_a_surprise(problem: Problem) -> Problem:
    """The problem when its first step has also brought about what the step in the middle of its plan is there for."""
    steps = planned(problem).steps
    brought = {fact for fact in steps[len(steps) // 2].effects if not isinstance(fact, HasRun)}
    stepped = after_a_step(problem)
    return replace(stepped, start=replace(stepped.start, true=stepped.start.true | brought))


def after_a_loss(problem: Problem) -> Problem:
    """The problem when a step that can be done in another way has run and given nothing."""
    step = replaceable(problem)
    return replace(problem, start=replace(problem.start, true=problem.start.true | {HasRun(step.action)}))


def after_a_failure(problem: Problem) -> Problem:
    """The problem when a step that can be done in another way is left out."""
    return replace(problem, excluded=problem.excluded | {replaceable(problem).action})


def after_a_rise(problem: Problem) -> Problem:
    """The problem when every third step of its plan costs twice as much, and one more besides."""
    return replace(problem, costs={step.action: 2 * step.cost + 1 for step in planned(problem).steps[::3]})


def replaceable(problem: Problem) -> Operator:
    """The first step of the plan that the goal can be reached without, or else the first."""
    steps = planned(problem).steps
    without = (replace(problem, excluded=problem.excluded | {step.action}) for step in steps)
    return next((step for step, other in zip(steps, without, strict=True) if isinstance(plan(other), Plan)), steps[0])


SURPRISES: dict[str, Callable[[Problem], Problem]] = {
    "a step gave more": after_a_surprise,
    "a step gave nothing": after_a_loss,
    "an action is left out": after_a_failure,
    "costs have risen": after_a_rise,
}


FAMILIES: dict[str, Callable[[], Problem]] = {
    "chain of 10 + 60 irrelevant": chain_with_irrelevant,
    "chain of 10 + 60, all costs 0": lambda: chain_with_irrelevant(cost=0.0),
    "50 agents x 4 actions": platform_of_agents,
    "50 agents x 4, all costs 0": lambda: platform_of_agents(cost=0.0),
    "crime domain + 300 random": lambda: crime(random_actions=300),
    **{f"crime domain, {count} enemies": lambda count=count: crime(count) for count in range(1, 7)},
    "random DAG, 10 actions": lambda: random_dag(10),
    "random DAG, 100 actions": lambda: random_dag(100),
    "1,000 actions x 2,000 conditions": lambda: random_dag(window=1000),
    "the same, latest 300 types": random_dag,
    "the same, 100 of them spares": lambda: random_dag(spares=100),
    "the same, latest 60 types, 1 input": lambda: random_dag(window=60, inputs=1),
    "a way through 150 states": states,
    "a way through 300 states": lambda: states(300),
    "layers 10 x 50, 2 ways each": layers,
    "layers 5 x 100, 2 ways each": lambda: layers(5, 100),
    "layers 10 x 33, 3 ways, 1 input": lambda: layers(10, 33, 3, 1),
    "layers 20 x 25, 2 ways each": lambda: layers(20, 25),
}

COLUMNS = ("problem", "compile", "first plan", "a step on", "surprised", "explain no", "steps", "expansions")
DEADLINE = 5.0


def main() -> None:
    """Print the table: medians, in milliseconds."""
    print("".join(f"{column:>12}" if number else f"{column:34}" for number, column in enumerate(COLUMNS)))
    for name, family in FAMILIES.items():
        cells = measured(family())
        print(f"{name:34}" + "".join(f"{cell:>12}" for cell in cells), flush=True)


def measured(problem: Problem, times: int = 5) -> list[str]:
    problem = replace(problem, deadline=DEADLINE)
    compiling = timed(lambda: PlanningSystem(problem.system.operators), times)
    systems = [anew(problem) for _ in range(times)]
    answers: list[Answer] = []
    first = timed(lambda: answers.append(plan(systems.pop())), times)
    found = answers[0]
    if not isinstance(found, Plan):
        return [compiling, f"> {DEADLINE:g} s", "", "", "", "", str(found.expansions)]
    stepped, surprised = after_a_step(problem), after_a_surprise(problem)
    unheard_of = iter(range(times))
    last = frozenset({found.steps[-1].action})
    return [
        compiling,
        first,
        timed(lambda: plan(stepped), times),
        # What nobody mentions changes no plan, but makes the question a new one.
        timed(lambda: plan(replace(surprised, excluded=frozenset({f"unheard of {next(unheard_of)}"}))), times),
        timed(lambda: explain(replace(problem, start=WorldState(), excluded=last)), times),
        str(len(found.steps)),
        str(found.expansions),
    ]


def anew(problem: Problem) -> Problem:
    """The same problem over a system that remembers no plan."""
    return replace(problem, system=PlanningSystem(problem.system.operators))


def timed(task: Callable[[], object], times: int) -> str:
    seconds: list[float] = []
    for _ in range(times):
        began = perf_counter()
        task()
        seconds.append(perf_counter() - began)
    return f"{1e3 * median(seconds):.2f}"


if __name__ == "__main__":
    main()
