"""Planner rows of docs/performance.md: problem families, and a table of what planning over them takes.

The families are plain functions that give a `Problem`; tests count their expansions, this script measures their times.
"""

from collections.abc import Iterator, Mapping
from random import Random

from goalport.plan.facts import Available, Fact, HasRun, Holds
from goalport.plan.problem import Goal, Operator, PlanningSystem, Problem, WorldState


def typed_action(name: str, takes: tuple[str, ...], gives: str, cost: float = 0.1) -> Operator:
    """An action as a class of a user's gives it: guarded so that it neither runs twice nor makes what is there."""
    needs: dict[Fact, bool] = {Available(kind): True for kind in takes}
    guards: dict[Fact, bool] = {HasRun(name): False, Available(gives): False}
    return Operator(name, name, needs | guards, {Available(gives): True, HasRun(name): True}, cost)


def typed_goal(name: str, output: str) -> Goal:
    return Goal(name, {Available(output): True, HasRun(name): True})


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
    goal = Goal("enemies dead", dead | {Holds("peril"): False}, value=10)
    return Problem(PlanningSystem(operators + list(random_deeds(random_actions, seed))), WorldState(), (goal,))


def deed(name: str, cost: float, requires: Mapping[str, bool], effects: Mapping[str, bool]) -> Operator:
    changes = {"peril": True} | effects
    return Operator(
        name,
        name,
        {Holds(fact): value for fact, value in requires.items()},
        {Holds(fact): value for fact, value in changes.items()},
        cost,
    )


def random_deeds(count: int, seed: int) -> Iterator[Operator]:
    """Actions over conditions of their own, one in ten of which can run at once."""
    random = Random(seed)  # noqa: S311
    for number in range(count):
        needed = {} if random.random() < 0.1 else {Holds(f"r{random.randrange(count)}"): True}
        given = {Holds(f"r{random.randrange(count)}"): random.random() < 0.8}
        yield Operator(f"random_{number}", f"random_{number}", needed, given, round(random.uniform(0.1, 3), 1))


def random_dag(actions: int = 1000, window: int = 60, inputs: int = 2, seed: int = 11) -> Problem:
    """Typed actions that each take outputs of earlier ones: twice as many conditions as actions."""
    random = Random(seed)  # noqa: S311
    operators: list[Operator] = []
    for number in range(actions):
        earlier = [f"T{i}" for i in range(max(0, number - window), number)]
        takes = random.sample(earlier, min(len(earlier), random.randint(1, inputs))) or ["Input"]
        operators.append(typed_action(f"act_{number}", tuple(takes), f"T{number}", round(random.uniform(0, 1), 2)))
    last = operators[-1].name
    return Problem(PlanningSystem(operators), started_with("Input"), (typed_goal(last, f"T{actions - 1}"),))
