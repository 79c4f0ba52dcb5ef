"""Contexts: what outlives processes, and what new ones begin with."""

from dataclasses import dataclass

import pytest

from goalport.agents.domain import UserInput, achieves_goal, action, agent
from goalport.base.caller import ANONYMOUS, Caller
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import ActionContext, Completed, Context, Failed, ProcessOptions
from tests.rooms.toy_domain import Person


@dataclass(frozen=True)
class Greeting:
    text: str


@agent(description="Greets whom it remembers")
class Greeter:
    @achieves_goal(description="g")
    async def greet(self, user_input: UserInput, person: Person | None, platform: AgentPlatform) -> Greeting:
        context = await platform.contexts.find("ada") or Context("ada")
        context.add(Person(user_input.content))
        await platform.contexts.save(context)
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
    await platform.contexts.save(context)
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
    await platform.contexts.save(context)
    process = await platform.run("Delegates", UserInput("x"), options=ProcessOptions(context_id="c"))
    assert process.outcome == Completed(Told("1 known"))


async def test_a_context_is_as_it_was_saved_and_shared_with_nobody() -> None:
    platform, mine = AgentPlatform(), Context("c")
    mine.add(Person("Ada"))
    await platform.contexts.save(mine)
    mine.add(Person("Bo"))
    found = await platform.contexts.find("c")
    assert found is not None
    assert found.objects == (Person("Ada"),)
    found.add(Person("Cy"))
    await platform.contexts.save(found)
    await platform.contexts.save(mine)
    assert mine.objects == (Person("Ada"), Person("Cy"), Person("Bo"))
    assert await platform.contexts.delete("c")
    assert await platform.contexts.find("c") is None


def test_a_context_has_an_id_and_objects() -> None:
    with pytest.raises(ValueError, match="Expected the id of a context"):
        Context("")
    with pytest.raises(ValueError, match="Expected an object for context 'c', but got None"):
        Context("c").add(None)


async def test_what_a_process_is_given_counts_as_newer_than_what_its_context_holds() -> None:
    platform, context = AgentPlatform([Greeter]), Context("c")
    context["boss"] = context["host"] = Person("Ada")
    context.add(Person("Bo"))
    await platform.contexts.save(context)
    options = ProcessOptions(context_id="c", prune=True)
    process = platform.create_agent_process(
        "Greeter", UserInput("x"), Person("Cy"), bindings={"boss": Person("Di")}, options=options
    )
    assert process.blackboard.all(Person) == [Person("Cy"), Person("Di")]
    assert (await process.run(), len(process.history)) == (Completed(Greeting("Hello, Di!")), 1)
    assert process.blackboard.all(Person) == list(map(Person, ("Ada", "Ada", "Bo", "Cy", "Di")))
    assert (process.blackboard.get("boss"), process.blackboard.get("host")) == (Person("Di"), Person("Ada"))


@agent(description="Greets whom the caller remembers")
class Diary:
    @achieves_goal(description="g")
    async def greet(self, person: Person | None, user_input: UserInput) -> Greeting:
        return Greeting(person.name if person else "stranger")


async def test_a_context_is_its_callers_alone_and_another_has_the_id_to_themselves() -> None:
    platform, anna = AgentPlatform([Diary]), Caller("anna", "https://login.example.com")
    for owner, name in ((anna, "Ada"), (ANONYMOUS, "Old")):
        context = Context("notes", owner)
        context.add(Person(name))
        await platform.contexts.save(context)

    async def met(caller: Caller, context_id: str = "notes") -> str:
        options = ProcessOptions(context_id=context_id)
        process = await platform.run("Diary", UserInput("x"), options=options, caller=caller)
        return process.result_of_type(Greeting).text

    others = (Caller("bo", anna.issuer), Caller("anna", "https://login.example.org"))
    assert (await met(anna), await met(ANONYMOUS)) == ("Ada", "Old")
    assert [await met(each) for each in others] == ["stranger", "stranger"]
    assert [await met(ANONYMOUS, key) for key in (Context("notes", anna).key, Context("notes", anna).id)] == [
        "stranger",
        "Old",
    ]
    admin = Caller("root", anna.issuer, admin=True)
    assert await met(admin) == "Old"
    assert not await platform.contexts.delete("notes", others[0])
    assert await platform.contexts.delete("notes", anna)
    assert await met(anna) == "stranger"


async def test_a_context_that_is_shared_by_a_scope_is_there_for_callers_who_have_it() -> None:
    platform, options = AgentPlatform([Diary]), ProcessOptions(context_id="house", context_scope="house:notes")
    context = Context("house", scope="house:notes")
    context.add(Person("Ada"))
    await platform.contexts.save(context)
    anna, bo = (Caller(name, scopes=frozenset({"house:notes"})) for name in ("anna", "bo"))
    for caller, name in ((anna, "Ada"), (bo, "Ada"), (Caller("cy"), "stranger"), (ANONYMOUS, "stranger")):
        process = await platform.run("Diary", UserInput("x"), options=options, caller=caller)
        assert process.outcome == Completed(Greeting(name))
    process = await platform.run("Diary", UserInput("x"), options=ProcessOptions(context_id="house"), caller=anna)
    assert process.outcome == Completed(Greeting("stranger"))
    assert await platform.contexts.find("house", Caller("cy"), scope="house:notes") is None
    assert not await platform.contexts.delete("house", Caller("cy"), scope="house:notes")
    assert await platform.contexts.delete("house", bo, scope="house:notes")


@agent(description="Greets step by step")
class Slow:
    @action
    def call(self, user_input: UserInput) -> Told:
        return Told(user_input.content)

    @achieves_goal(description="g")
    def greet(self, told: Told, person: Person) -> Greeting:
        return Greeting(f"{told.text}, {person.name}!")


async def test_a_context_is_read_when_the_first_step_begins_and_never_again() -> None:
    platform, context = AgentPlatform([Slow]), Context("c")
    context.add(Person("Ada"))
    options = ProcessOptions(context_id="c", prune=True)
    process = platform.create_agent_process("Slow", UserInput("Hello"), options=options)
    await platform.contexts.save(context)
    assert await process.tick() == "running"
    context.add(Person("Bo"))
    await platform.contexts.save(context)
    assert await process.run() == Completed(Greeting("Hello, Ada!"))


class Ledger:
    """A service of an application, which has nothing to do with contexts."""

    def find(self, name: str) -> str:
        raise AssertionError(name)

    def save(self, name: str) -> None:
        raise AssertionError(name)

    def delete(self, name: str) -> None:
        raise AssertionError(name)


class Shelf:
    """Contexts of one's own."""

    def __init__(self) -> None:
        self.kept: dict[str, Context] = {}

    async def find(self, context_id: str, caller: Caller = ANONYMOUS, *, scope: str = "") -> Context | None:
        if context_id == "torn":
            raise OSError("a page is torn")
        return self.kept.get(Context(context_id, caller, scope=scope).key)

    async def save(self, context: Context) -> None:
        self.kept[context.key] = context

    async def delete(self, context_id: str, caller: Caller = ANONYMOUS, *, scope: str = "") -> bool:
        return self.kept.pop(Context(context_id, caller, scope=scope).key, None) is not None


async def test_a_program_may_keep_contexts_itself() -> None:
    shelf = Shelf()
    platform = AgentPlatform([Greeter], contexts=shelf, services=[Ledger()])
    await platform.run("Greeter", UserInput("Ada"), options=ProcessOptions(context_id="ada"))
    process = await platform.run("Greeter", UserInput("Ada"), options=ProcessOptions(context_id="ada"))
    assert process.outcome == Completed(Greeting("Hello, Ada!"))
    assert shelf.kept["ada"].objects == (Person("Ada"), Person("Ada"))
    assert await platform.store.find_context("ada") is None


async def test_a_process_whose_context_cannot_be_had_fails_and_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    platform = AgentPlatform([Greeter], contexts=Shelf())
    process = await platform.run("Greeter", UserInput("Ada"), options=ProcessOptions(context_id="torn"))
    assert isinstance(process.outcome, Failed)
    assert process.outcome.reason == "It did not begin. OSError: a page is torn"
    assert "a page is torn" in caplog.text
    assert await platform.process(process.id) is process
    assert await platform.processes.counts() == {"failed": 1}
    await process.rest()
    assert not platform.processes.running
