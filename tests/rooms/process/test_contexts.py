"""Contexts: what outlives processes, and what new ones begin with."""

from dataclasses import dataclass

import pytest

from goalport.domain import UserInput, achieves_goal, agent
from goalport.platform import AgentPlatform
from goalport.process import ActionContext, Completed, Context, ProcessOptions
from tests.rooms.toy_domain import Person


@dataclass(frozen=True)
class Greeting:
    text: str


@agent(description="Greets whom it remembers")
class Greeter:
    @achieves_goal(description="g")
    def greet(self, user_input: UserInput, person: Person | None, platform: AgentPlatform) -> Greeting:
        context = platform.contexts.find("ada") or Context("ada")
        context.add(Person(user_input.content))
        platform.contexts.save(context)
        return Greeting(f"Hello, {person.name if person else 'stranger'}!")


async def test_a_process_begins_with_what_its_context_holds_and_may_add_to_it() -> None:
    platform = AgentPlatform([Greeter])
    options = ProcessOptions(context_id="ada")
    first = await platform.run("Greeter", UserInput("Ada"), options=options)
    second = await platform.run("Greeter", UserInput("Ida"), options=options)
    elsewhere = await platform.run("Greeter", UserInput("x"))
    assert first.outcome == Completed(Greeting("Hello, stranger!"))
    assert second.outcome == Completed(Greeting("Hello, Ada!"))
    assert elsewhere.outcome == Completed(Greeting("Hello, stranger!"))


async def test_names_are_kept_and_nothing_comes_twice() -> None:
    platform = AgentPlatform([Greeter])
    context, ada = Context("c"), Person("Ada")
    context["boss"] = ada
    context.add(ada)
    context.add(Person("Bo"))
    platform.contexts.save(context)
    process = await platform.run("Greeter", UserInput("x"), options=ProcessOptions(context_id="c"))
    assert process.blackboard.get("boss") is ada
    assert process.blackboard.all(Person) == [ada, Person("Bo")]
    assert context.last(Person) == Person("Bo")
    assert (context.names, context.objects) == ({"boss": ada}, (ada, Person("Bo")))


async def test_an_unknown_context_is_a_warning_and_empty(caplog: pytest.LogCaptureFixture) -> None:
    process = await AgentPlatform([Greeter]).run("Greeter", UserInput("x"), options=ProcessOptions(context_id="nobody"))
    assert process.outcome == Completed(Greeting("Hello, stranger!"))
    assert "no context 'nobody'" in caplog.text


@dataclass(frozen=True)
class Told:
    text: str


async def test_a_sub_process_has_the_objects_of_its_parents_context_once() -> None:
    @agent(description="d")
    class Counts:
        @achieves_goal(description="g")
        def count(self, user_input: UserInput, context: ActionContext) -> Greeting:
            return Greeting(f"{len(context.blackboard.all(Person))} known")

    @agent(description="d")
    class Delegates:
        @achieves_goal(description="g")
        async def ask(self, user_input: UserInput, context: ActionContext) -> Told:
            return Told((await context.as_sub_process(Greeting, "Counts")).text)

    platform, context = AgentPlatform([Counts, Delegates]), Context("c")
    context.add(Person("Ada"))
    platform.contexts.save(context)
    process = await platform.run("Delegates", UserInput("x"), options=ProcessOptions(context_id="c"))
    assert process.outcome == Completed(Told("1 known"))
