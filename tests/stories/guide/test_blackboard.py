"""The blackboard, names on it, and contexts (sections 3.2.3 to 3.2.5)."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from goalport import (
    ActionContext,
    AgentPlatform,
    Blackboard,
    Named,
    OperationContext,
    ProcessOptions,
    UserInput,
    achieves_goal,
    action,
    agent,
)
from goalport.runtime import Completed, Context, Stuck


@dataclass(frozen=True)
class Person:
    name: str


@dataclass(frozen=True)
class Analysis:
    text: str


@dataclass(frozen=True)
class Thing:
    text: str


@dataclass(frozen=True)
class Whatever:
    text: str


@pytest.fixture
def blackboard() -> Blackboard:
    board = Blackboard()
    board += Person("Ann")
    board["result"] = Analysis("fine")
    board.add(Person("Bo"))
    return board


def test_objects_are_found_by_type_the_newest_first_and_by_name(blackboard: Blackboard) -> None:
    assert blackboard.last(Person) == Person("Bo")
    assert blackboard.all(Person) == [Person("Ann"), Person("Bo")]
    assert blackboard.get("result") == Analysis("fine")
    assert blackboard.get("it") == Person("Bo")
    assert blackboard.objects == [Person("Ann"), Analysis("fine"), Person("Bo")]
    assert blackboard.last_result == Person("Bo")


def test_conditions_are_stated_and_looked_up(blackboard: Blackboard) -> None:
    blackboard.set_condition("user_verified", value=True)
    assert blackboard.get_condition("user_verified") is True
    assert blackboard.get_condition("never_stated") is None


@agent(description="Lets in whom it has verified")
class Doorman:
    @action(post=["user_verified"])
    async def verify(self, person: Person, context: OperationContext) -> None:
        context.blackboard.set_condition("user_verified", value=person.name == "Ann")

    @achieves_goal(description="Let in")
    @action(pre=["user_verified"])
    async def let_in(self, person: Person) -> Whatever:
        return Whatever(f"Welcome, {person.name}")


async def test_a_condition_that_an_action_states_decides_what_can_run() -> None:
    platform = AgentPlatform([Doorman])
    ann, bo = await platform.run("Doorman", Person("Ann")), await platform.run("Doorman", Person("Bo"))
    assert ann.outcome == Completed(Whatever("Welcome, Ann"))
    assert isinstance(bo.outcome, Stuck)
    assert bo.blackboard.get_condition("user_verified") is False


def test_what_is_hidden_is_found_no_more_and_stays_in_the_history(blackboard: Blackboard) -> None:
    (_, newer) = blackboard.all(Person)
    blackboard.hide(newer)
    assert blackboard.last(Person) == Person("Ann")
    assert blackboard.get("it") is None
    assert newer not in blackboard.objects
    assert newer in blackboard.history


def test_a_new_version_stands_beside_the_old_one(blackboard: Blackboard) -> None:
    blackboard["result"] = Analysis("better")
    assert blackboard.get("result") == Analysis("better")
    assert blackboard.all(Analysis) == [Analysis("fine"), Analysis("better")]


@dataclass(frozen=True)
class Command:
    text: str


@agent(description="Does what it is told, command by command")
class Obeys:
    """A command that was handled is hidden; the plan then rests on the one before it."""

    @action(can_rerun=True)
    async def obey(self, command: Command, context: ActionContext) -> Analysis | None:
        context.blackboard.hide(command)
        return Analysis(command.text) if command.text == "stop" else None

    @achieves_goal(description="Stop")
    async def stop(self, analysis: Analysis) -> Whatever:
        return Whatever(analysis.text)


async def test_a_handled_command_that_was_hidden_is_not_planned_on_again() -> None:
    given = Command("stop"), Command("left"), Command("right")
    process = await AgentPlatform([Obeys]).run("Obeys", *given)
    assert process.outcome == Completed(Whatever("stop"))
    assert [each.status for each in process.history] == ["declined", "declined", "succeeded", "succeeded"]
    assert process.blackboard.all(Command) == []
    assert set(given) <= set(process.blackboard.history)


@agent(description="Finds out who somebody is")
class Extracts:
    @action
    def extract_person(self, user_input: UserInput, context: OperationContext) -> Person | None:
        found = Person(user_input.content) if user_input.content.istitle() else None
        if found is not None:
            context.bind("user", found)
        return found

    @achieves_goal(description="Say who it is")
    def greet(self, person: Person) -> Whatever:
        return Whatever(f"Hello, {person.name}")


async def test_an_action_may_bind_its_object_under_a_name_itself() -> None:
    process = await AgentPlatform([Extracts]).run("Extracts", UserInput("Ann"))
    assert process.outcome == Completed(Whatever("Hello, Ann"))
    assert process.blackboard.get("user", Person) == Person("Ann")


@agent(description="Wants things by their names")
class Things:
    @action(output_binding="thing_one")
    def bind_thing_1(self, user_input: UserInput) -> Thing:
        return Thing(f"{user_input.content} the first")

    @action(output_binding="thing_two")
    def bind_thing_2(self, user_input: UserInput) -> Thing:
        return Thing(f"{user_input.content} the second")

    @achieves_goal(description="Do something with both")
    def do_with_things(
        self, thing_two: Annotated[Thing, Named()], first: Annotated[Thing, Named("thing_one")]
    ) -> Whatever:
        return Whatever(f"{first.text}, {thing_two.text}")


async def test_an_output_binding_satisfies_parameters_that_ask_for_the_name() -> None:
    process = await AgentPlatform([Things]).run("Things", UserInput("cat"))
    assert process.outcome == Completed(Whatever("cat the first, cat the second"))


@agent(description="Wants a thing by its name")
class ByName:
    @achieves_goal(description="Do something with it")
    def do_with_thing(self, thing_one: Annotated[Thing, Named()]) -> Whatever:
        return Whatever(thing_one.text)


async def test_a_parameter_that_asks_for_a_name_needs_type_and_name() -> None:
    platform = AgentPlatform([ByName])
    named = await platform.run("ByName", bindings={"thing_one": Thing("named")})
    unnamed = await platform.run("ByName", Thing("unnamed"))
    wrong = await platform.run("ByName", bindings={"thing_one": Person("Ann")})
    assert named.outcome == Completed(Whatever("named"))
    assert isinstance(unnamed.outcome, Stuck)
    assert isinstance(wrong.outcome, Stuck)
    assert "thing_one" in unnamed.outcome.reason


@agent(description="Takes any thing")
class ByType:
    @achieves_goal(description="Do something with it")
    def do_with_thing(self, thing: Thing) -> Whatever:
        return Whatever(thing.text)


async def test_where_a_parameter_goes_by_type_the_name_does_not_matter() -> None:
    process = await AgentPlatform([ByType]).run("ByType", Thing("older"), bindings={"whatever": Thing("newer")})
    assert process.outcome == Completed(Whatever("newer"))


async def test_a_context_outlives_processes_and_gives_each_what_it_holds() -> None:
    platform, context = AgentPlatform([ByType, ByName]), Context("session-7")
    context["thing_one"] = Thing("kept")
    await platform.contexts.save(context)
    options = ProcessOptions(context_id="session-7")
    outcomes = [(await platform.run(name, options=options)).outcome for name in ("ByType", "ByName")]
    assert outcomes == [Completed(Whatever("kept"))] * 2
