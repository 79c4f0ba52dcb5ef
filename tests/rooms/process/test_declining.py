"""Actions whose model says that it knows too little: what it lacked is told when no other way is left."""

from dataclasses import dataclass

from goalport import AgentPlatform, UserInput, achieves_goal, action, agent
from goalport.runtime.ai import Ai
from goalport.runtime.process import Completed, Stuck
from goalport.testing import ScriptedModel
from tests.rooms.toy_domain import Draft, Person


@dataclass(frozen=True)
class Greeting:
    text: str


@agent(description="Greets people")
class Greeter:
    @action
    async def find(self, user_input: UserInput, ai: Ai) -> Person | None:
        found = await ai.create_object_if_possible(f"Who is this? {user_input.content}", Person)
        return None if found is None or found.name == "nobody" else found

    @achieves_goal(description="A greeting")
    @action
    def greet(self, person: Person) -> Greeting:
        return Greeting(f"Hello {person.name}")


@agent(description="Asks twice, and wants somebody else than the first")
class Insistent:
    @action
    async def find(self, user_input: UserInput, ai: Ai) -> Person | None:
        first = await ai.create_object_if_possible(user_input.content, Person)
        return first or await ai.create_object_if_possible(user_input.content, Person)

    @achieves_goal(description="A greeting")
    @action
    def greet(self, person: Person) -> Greeting:
        return Greeting(f"Hello {person.name}")


def too_little(lacks: str) -> dict[str, object]:
    return {"result": None, "failure": lacks}


async def test_what_the_model_lacked_is_said_where_the_process_is_stuck() -> None:
    model = ScriptedModel([too_little("There is no\nname in it.")])
    outcome = (await AgentPlatform([Greeter], models=model).run("Greeter", UserInput("hm"))).outcome
    assert isinstance(outcome, Stuck)
    assert outcome.reason.startswith("Greeter.find gave nothing (There is no name in it). ")


async def test_an_action_that_gave_nothing_for_a_reason_of_its_own_is_not_explained_by_a_model() -> None:
    model = ScriptedModel([{"result": {"name": "nobody"}, "failure": None}])
    outcome = (await AgentPlatform([Greeter], models=model).run("Greeter", UserInput("hm"))).outcome
    assert isinstance(outcome, Stuck)
    assert outcome.reason.startswith("Greeter.find gave nothing. ")


async def test_a_model_that_declined_once_and_gave_the_object_then_is_not_told_of() -> None:
    model = ScriptedModel([too_little("no name"), {"result": {"name": "Bo"}, "failure": None}])
    process = await AgentPlatform([Insistent], models=model).run("Insistent", UserInput("Bo"))
    assert process.outcome == Completed(Greeting("Hello Bo"))


async def test_a_long_reason_is_cut() -> None:
    model = ScriptedModel([too_little("x" * 5_000)])
    outcome = (await AgentPlatform([Greeter], models=model).run("Greeter", UserInput("hm"))).outcome
    assert outcome is not None
    assert len(outcome.reason) < 1_000


async def test_an_action_that_gives_nothing_though_it_declares_something_is_told_that_a_return_may_be_missing() -> None:
    @agent(description="Forgets")
    class Forgets:
        @achieves_goal(description="g")
        async def draft(self, user_input: UserInput) -> Draft:  # type: ignore[return]
            Draft(user_input.content)

    process = await AgentPlatform([Forgets]).run("Forgets", UserInput("x"))
    assert isinstance(process.outcome, Stuck)
    assert process.outcome.reason.startswith(
        "Forgets.draft gave nothing. Forgets.draft declares that it gives a Draft: perhaps a `return` is missing. "
    )
