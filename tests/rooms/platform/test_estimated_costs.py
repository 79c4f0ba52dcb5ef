"""Costs in plans that nobody has started: computed as a process would, where that is possible."""

from dataclasses import dataclass
from typing import Annotated

from anyio.lowlevel import checkpoint

from goalport import AgentPlatform, OperationContext, Provided, UserInput, achieves_goal, action, agent, cost
from goalport.testing import plan_of


@dataclass(frozen=True)
class Trip:
    by: str


@dataclass(frozen=True)
class Weather:
    storm: bool


@dataclass(frozen=True)
class Arrival:
    by: str


@dataclass(frozen=True)
class Prices:
    train: float


@agent(description="Travels")
class Travel:
    def __init__(self, plane: float = 0.9) -> None:
        self.plane = plane

    @cost
    def by_train(self, prices: Annotated[Prices, Provided]) -> float:
        return prices.train

    @cost
    async def by_plane(self) -> float:
        return self.plane

    @action(cost_method="by_train")
    async def train(self, said: UserInput) -> Trip:
        return Trip("train")

    @action(cost_method="by_plane")
    async def fly(self, said: UserInput) -> Trip:
        return Trip("plane")

    @achieves_goal(description="g")
    async def arrive(self, trip: Trip) -> Arrival:
        return Arrival(trip.by)


async def test_a_plan_foreseen_is_the_plan_that_is_run() -> None:
    for train, step in ((0.2, "train"), (0.95, "fly")):
        platform = AgentPlatform([Travel()], services=[Prices(train)])
        foreseen = platform.explain("arrive", [UserInput])
        assert foreseen.plan is not None
        process = await platform.run("Travel", UserInput("x"))
        assert [each.action for each in foreseen.plan.steps] == [each.action for each in process.history]
        assert foreseen.plan.steps[0].action == f"Travel.{step}"
        assert foreseen.plan.cost == min(train, 0.9)
        assert foreseen.alternative is not None
        assert foreseen.alternative.plan.cost == max(train, 0.9)
        assert foreseen.notes == ()
        assert plan_of(Travel(), given=[UserInput], services=[Prices(train)]) == [step, "arrive"]


@agent(description="Travels as the weather allows")
class Weathered:
    @cost
    def by_boat(self, weather: Weather | None) -> float:
        return 1.0 if weather is None or weather.storm else 0.1

    @cost
    def watched(self, context: OperationContext) -> float:
        return 0.5

    @cost
    async def slow(self) -> float:
        await checkpoint()
        return 0.5

    @cost
    def broken(self) -> float:
        raise OSError("secret")

    @cost
    def by_tram(self, arrival: Arrival | None) -> float:
        return 0.1 if arrival else 0.9

    @achieves_goal(description="t")
    @action(cost_method="by_tram")
    async def again(self, arrival: Arrival) -> Trip:
        return Trip("tram")

    @action(cost=0.3, cost_method="by_boat")
    async def sail(self, weather: Weather) -> Trip:
        return Trip("boat")

    @action(cost_method="watched", cost=0.4)
    async def walk(self, weather: Weather) -> Trip:
        return Trip("foot")

    @action(cost_method="slow", cost=0.6)
    async def ride(self, weather: Weather) -> Trip:
        return Trip("horse")

    @action(cost_method="broken", cost=0.7)
    async def row(self, weather: Weather) -> Trip:
        return Trip("oar")

    @achieves_goal(description="g")
    async def arrive(self, trip: Trip) -> Arrival:
        return Arrival(trip.by)

    @achieves_goal(description="h")
    async def report(self, weather: Weather) -> Prices:
        return Prices(0)


async def test_what_is_known_at_run_time_only_is_said() -> None:
    platform = AgentPlatform([Weathered])
    foreseen = platform.explain("arrive", [Weather])
    assert foreseen.plan is not None
    assert foreseen.plan.steps[0].action == "Weathered.sail"
    for note in (
        "The cost of Weathered.sail is known at run time only: by_boat looks at a Weather. It counts as 0.3 here.",
        "The cost of Weathered.walk is known at run time only: watched looks at the process. It counts as 0.4 here.",
        "The cost of Weathered.ride is known at run time only: slow waits for something. It counts as 0.6 here.",
        (
            "The cost of Weathered.row cannot be computed: broken raised OSError when asked."
            " It counts as 1e+09, dearer than any other, as it does at run time."
        ),
    ):
        assert note in foreseen.notes
        assert note in foreseen.text()
    assert platform.explain("report", [Weather]).notes == ()
    assert "by_tram looks at an Arrival." in platform.explain("again", [Arrival]).notes[0]


@agent(description="Rows or swims")
class Rower:
    @cost
    def broken(self) -> float:
        raise OSError("secret")

    @cost
    def below_zero(self) -> float:
        return -1.0

    @action(cost_method="broken", value_method="broken", value=0.2)
    async def row(self, said: UserInput) -> Trip:
        return Trip("oar")

    @action(cost_method="below_zero")
    async def drift(self, said: UserInput) -> Trip:
        return Trip("current")

    @action(cost=0.9)
    async def swim(self, said: UserInput) -> Trip:
        return Trip("arms")

    @achieves_goal(description="g")
    async def arrive(self, trip: Trip) -> Arrival:
        return Arrival(trip.by)


async def test_a_cost_that_cannot_be_computed_is_the_dearest_in_what_is_foreseen_and_in_what_is_run() -> None:
    platform = AgentPlatform([Rower])
    foreseen = platform.explain("arrive", [UserInput])
    process = await platform.run("Rower", UserInput("x"))

    assert foreseen.plan is not None
    assert [each.action for each in foreseen.plan.steps] == [each.action for each in process.history]
    assert foreseen.plan.steps[0].action == "Rower.swim"
    assert any("below_zero gave -1.0, which is no such figure" in each for each in foreseen.notes)
