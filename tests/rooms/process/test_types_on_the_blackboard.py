"""What is on the blackboard keeps the type that its action declared, or that it was given under."""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar

import pytest
from pydantic import BaseModel

from goalport import (
    AgentInvocation,
    AgentPlatform,
    AgentProcess,
    Named,
    OperationContext,
    ProcessOptions,
    SomeOf,
    UserInput,
    WaitFor,
    achieves_goal,
    action,
    agent,
    run_subagent,
)
from goalport.agents.blackboard import Blackboard, Typed
from goalport.runtime.process import Completed, Context, Stuck
from goalport.testing import FakeOperationContext, plan_of

T = TypeVar("T")


@dataclass(frozen=True)
class Violation:
    rule: str


@dataclass(frozen=True)
class Approver:
    name: str


@dataclass(frozen=True)
class Report:
    text: str


@dataclass(frozen=True)
class Raw:
    text: str


@dataclass(frozen=True)
class Clean:
    text: str


@dataclass(frozen=True)
class Page(Generic[T]):
    items: list[T] = field(default_factory=list[T])


@dataclass(frozen=True)
class Tag(Generic[T]):
    """Holds nothing of its parameter."""

    word: str


def tag(word: str) -> Tag[Any]:
    """One that shows at run time nothing of its parameter."""
    return Tag[Any](word)


class Sheet(BaseModel, Generic[T]):
    items: list[T] = []


@dataclass(frozen=True)
class Box(Generic[T]):
    inside: T


def value_of(process: AgentProcess) -> object:
    assert isinstance(process.outcome, Completed), process.outcome
    return process.outcome.value


def ran(process: AgentProcess) -> list[str]:
    return [each.action.rpartition(".")[2] for each in process.history]


@agent(description="Finds who has to approve")
class Approvals:
    @action
    async def check(self, said: UserInput) -> list[Violation]:
        return [Violation(each) for each in said.content.split()]

    @action
    async def approvers(self, violations: list[Violation]) -> list[Approver]:
        return [Approver(f"boss of {each.rule}") for each in violations] or [Approver("nobody in particular")]

    @achieves_goal(description="g")
    async def out(self, approvers: list[Approver]) -> Report:
        return Report(f"approved by {[each.name for each in approvers]}")


async def test_an_empty_list_is_a_list_of_what_its_action_declares_and_of_nothing_else() -> None:
    process = await AgentPlatform([Approvals]).run("Approvals", UserInput(""))
    assert ran(process) == ["check", "approvers", "out"]
    assert value_of(process) == Report("approved by ['nobody in particular']")
    assert process.blackboard.last(list[Violation]) == []
    assert process.blackboard.last(Sequence[Violation]) == []
    assert process.blackboard.last(Sequence[object]) == [Approver("nobody in particular")]
    assert process.blackboard.last(list[Report]) is None
    assert process.blackboard.all(list[Violation]) == [[]]


@agent(description="Cleans pages")
class Washing:
    @action
    async def scrape(self, said: UserInput) -> Page[Raw]:
        return Page()

    @action
    async def clean(self, page: Page[Raw]) -> Page[Clean]:
        return Page()

    @achieves_goal(description="g")
    async def out(self, page: Page[Clean], raw: Page[Raw]) -> Report:
        return Report("different" if page is not raw else "the same")


@agent(description="Cleans sheets, whose class says of what they are only where somebody wrote it")
class Laundry:
    @action
    async def scrape(self, said: UserInput) -> Sheet[Raw]:
        return Sheet()

    @action
    async def clean(self, page: Sheet[Raw]) -> Sheet[Clean]:
        return Sheet[Clean]()

    @achieves_goal(description="g")
    async def out(self, page: Sheet[Clean], raw: Sheet[Raw]) -> Report:
        return Report("different" if page is not raw else "the same")


@agent(description="Tells tags apart that hold nothing of their parameter")
class Tagging:
    @action
    async def scrape(self, said: UserInput) -> Tag[Raw]:
        return tag("raw")

    @action
    async def clean(self, page: Tag[Raw]) -> Tag[Clean]:
        return tag("clean")

    @achieves_goal(description="g")
    async def out(self, page: Tag[Clean], raw: Tag[Raw]) -> Report:
        return Report("different" if (page.word, raw.word) == ("clean", "raw") else "the same")


@pytest.mark.parametrize("kind", [Washing, Laundry, Tagging])
async def test_two_generics_of_one_class_are_two_types(kind: type) -> None:
    process = await AgentPlatform([kind]).run(kind.__name__, UserInput("x"))
    assert ran(process) == ["scrape", "clean", "out"]
    assert value_of(process) == Report("different")


async def test_what_is_not_what_its_action_declares_is_still_refused() -> None:
    @agent(description="d")
    class Wrong:
        @achieves_goal(description="g")
        async def out(self, said: UserInput) -> Sheet[Raw]:
            wrong: Sheet[Clean] = Sheet[Clean]()
            return wrong  # pyright: ignore[reportReturnType]

    process = await AgentPlatform([Wrong]).run("Wrong", UserInput("x"))
    assert "declares that it returns Sheet[Raw], but it returned a Sheet[Clean]" in str(process.outcome)


@agent(description="Takes boxes apart")
class Unpacking:
    @achieves_goal(description="g")
    async def out(self, a: Box[Raw], b: Box[Clean]) -> Report:
        return Report(f"{a.inside} {b.inside}")


async def test_what_a_generic_object_holds_tells_its_type_where_nobody_declared_it() -> None:
    platform = AgentPlatform([Unpacking])
    wanted = Report(f"{Raw('r')} {Clean('c')}")
    assert value_of(await platform.run("Unpacking", Box(Clean("c")), Box(Raw("r")))) == wanted
    assert await AgentInvocation.on(platform).returning(Report).invoke(Box(Raw("r")), Box(Clean("c"))) == wanted
    assert isinstance((await platform.run("Unpacking", Box(Raw("r")))).outcome, Stuck)


@agent(description="Takes what its caller gives")
class Taking:
    @action
    async def check(self, violations: list[Violation]) -> list[Approver]:
        return []

    @achieves_goal(description="g")
    async def out(self, violations: list[Violation], approvers: list[Approver], tag: Tag[Raw]) -> Report:
        return Report(f"{len(violations)} {len(approvers)} {tag.word}")


async def test_what_a_caller_gives_counts_as_the_only_type_that_the_agent_takes_and_it_may_be() -> None:
    process = await AgentPlatform([Taking]).run("Taking", [], tag("t"))
    assert ran(process) == ["check", "out"]
    assert value_of(process) == Report("0 0 t")


@agent(description="Takes two tags")
class TwoTags:
    @achieves_goal(description="g")
    async def out(self, a: Tag[Raw], b: Tag[Clean]) -> Report:
        return Report(f"{a.word} {b.word}")


async def test_an_input_is_of_the_type_that_it_was_given_under() -> None:
    platform = AgentPlatform([TwoTags])
    raw, clean = Typed(tag("raw"), Tag[Raw]), Typed(tag("clean"), Tag[Clean])
    assert value_of(await platform.run("TwoTags", raw, clean)) == Report("raw clean")
    assert value_of(await platform.run("TwoTags", clean, raw)) == Report("raw clean")
    assert isinstance((await platform.run("TwoTags", tag("raw"), tag("clean"))).outcome, Stuck)


@pytest.mark.parametrize(("value", "kind"), [("x", list[Raw]), ([Clean("c")], list[Raw]), (None, Raw)])
def test_a_type_that_an_object_is_not_of_is_refused(value: object, kind: object) -> None:
    with pytest.raises(TypeError, match="Expected an object of the type"):
        Typed(value, kind)


async def test_names_keep_types_too() -> None:
    @agent(description="d")
    class Naming:
        @achieves_goal(description="g")
        async def out(
            self, raw: Annotated[Tag[Raw], Named("raw")], other: Annotated[Tag[Clean], Named("other")]
        ) -> Report:
            return Report(f"{raw.word} {other.word}")

    process = await AgentPlatform([Naming]).run("Naming", bindings={"raw": tag("r"), "other": tag("o")})
    assert value_of(process) == Report("r o")
    assert process.blackboard.get("raw", Tag[Raw]) == tag("r")
    assert process.blackboard.get("raw", Tag[Clean]) is None


@agent(description="Asks for a list")
class Asking:
    @action
    async def ask(self, said: UserInput) -> WaitFor[list[Violation]]:
        return WaitFor[list[Violation]].form_submission("Which?", list[Violation])

    @action
    async def approvers(self, violations: list[Violation]) -> list[Approver]:
        return [Approver("a")]

    @achieves_goal(description="g")
    async def out(self, approvers: list[Approver]) -> Report:
        return Report(f"{len(approvers)}")


async def test_an_answer_is_of_the_type_that_was_asked_for() -> None:
    platform = AgentPlatform([Asking])
    process = await platform.run("Asking", UserInput("x"))
    process = await platform.answer(process.id, response=[])
    await process.wait()
    assert value_of(process) == Report("1")


class Findings(SomeOf):
    violations: list[Violation] | None = None
    approvers: list[Approver] | None = None


async def test_parts_of_a_result_are_of_the_types_of_their_fields() -> None:
    @agent(description="d")
    class Parts:
        @action
        async def find(self, said: UserInput) -> Findings:
            return Findings(violations=[])

        @action
        async def approvers(self, violations: list[Violation]) -> list[Approver]:
            return [Approver("a")]

        @achieves_goal(description="g")
        async def out(self, approvers: list[Approver]) -> Report:
            return Report(f"{len(approvers)}")

    process = await AgentPlatform([Parts]).run("Parts", UserInput("x"))
    assert process.blackboard.last(list[Violation]) == []
    assert ran(process) == ["find", "approvers", "out"]
    assert value_of(process) == Report("1")


async def test_of_several_exits_the_first_that_it_is_counts() -> None:
    @agent(description="d")
    class Exits:
        @action
        async def find(self, said: UserInput) -> list[Approver] | list[Violation]:
            return []

        @achieves_goal(description="g")
        async def out(self, approvers: list[Approver]) -> Report:
            return Report(f"{len(approvers)}")

    process = await AgentPlatform([Exits]).run("Exits", UserInput("x"))
    assert value_of(process) == Report("0")
    assert process.blackboard.last(list[Violation]) is None


@agent(description="Gives an empty list")
class Empty:
    @achieves_goal(description="g")
    async def out(self, tag: Tag[Raw]) -> list[Violation]:
        return []


async def test_results_are_of_the_type_of_their_goal() -> None:
    platform = AgentPlatform([Empty])
    assert await AgentInvocation.on(platform).returning(list[Violation]).invoke(tag("t")) == []
    assert await AgentInvocation.on(platform).returning(Sequence[Violation]).invoke(tag("t")) == []
    process = await platform.run("Empty", tag("t"))
    assert process.result_of_type(list[Violation]) == []
    with pytest.raises(Exception, match="there is no list"):
        process.result_of_type(list[Approver])


@agent(description="Has another do it")
class Outer:
    @action
    async def delegate(self, said: UserInput) -> list[Violation]:
        return await run_subagent("Empty", list[Violation], tag("t"))

    @action
    async def approvers(self, violations: list[Violation]) -> list[Approver]:
        return [Approver("a")]

    @achieves_goal(description="g")
    async def out(self, approvers: list[Approver]) -> Report:
        return Report(f"{len(approvers)}")


async def test_results_of_sub_processes_are_of_the_type_that_the_action_declares() -> None:
    process = await AgentPlatform([Empty, Outer]).run("Outer", UserInput("x"))
    assert value_of(process) == Report("1")


async def test_what_an_action_adds_and_what_a_context_keeps_can_say_its_type() -> None:
    @agent(description="d")
    class Adding:
        @action(post=["done"])
        async def add(self, said: UserInput, context: OperationContext) -> None:
            context.add(Typed(tag("raw"), Tag[Raw]))

        @achieves_goal(description="g")
        @action(pre=["done"])
        async def out(self, raw: Tag[Raw] | None, clean: Tag[Clean]) -> Report:
            return Report(f"{raw and raw.word} {clean.word}")

    kept = Context("c")
    kept.add(Typed(tag("clean"), Tag[Clean]))
    kept["old"] = Typed(tag("older"), Tag[Clean])
    platform = AgentPlatform([Adding])
    await platform.contexts.save(kept)
    process = await platform.run("Adding", UserInput("x"), options=ProcessOptions(context_id="c"))
    assert value_of(process) == Report("raw clean")
    assert kept.last(Tag[Clean]) == tag("clean")
    assert kept.last(Tag[Raw]) is None
    assert (kept.objects, dict(kept.names)) == ((tag("clean"),), {"old": tag("older")})


class Stories(list[Raw]):
    pass


@dataclass(frozen=True)
class RawPage(Page[Raw]):
    pass


def test_a_class_that_fills_a_parameter_is_of_that_generic_only() -> None:
    blackboard = Blackboard()
    blackboard += RawPage()
    blackboard += Stories()
    assert blackboard.last(Page[Raw]) == RawPage()
    assert blackboard.last(Page[Clean]) is None
    assert blackboard.last(list[Raw]) == Stories()
    assert blackboard.last(list[Clean]) is None


@dataclass(frozen=True)
class Tagged(Generic[T]):
    """Iterates over something else than its parameter."""

    items: tuple[T, ...]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return iter([("tag", each) for each in self.items])


def test_a_dataclass_that_can_be_iterated_is_of_the_generic_that_its_fields_say() -> None:
    blackboard = Blackboard()
    blackboard += Typed(Tagged((Raw("r"),)), Tagged[Raw])
    assert blackboard.last(Tagged[Raw]) == Tagged((Raw("r"),))
    assert blackboard.last(Tagged[Clean]) is None


def test_types_inside_types_are_kept() -> None:
    blackboard = Blackboard()
    nested: list[list[Raw]] = [[]]
    blackboard += Typed(nested, list[list[Raw]])
    blackboard += Typed({"a": tag("t")}, dict[str, Tag[Raw]])
    blackboard += Typed([tag("t")], list[Tag[Clean]])
    assert blackboard.last(list[list[Raw]]) == [[]]
    assert blackboard.last(list[list[Clean]]) is None
    assert blackboard.last(dict[str, Tag[Clean]]) is None
    assert blackboard.last(dict[str, Tag[Raw]]) == {"a": tag("t")}
    assert blackboard.last(list[Tag[Raw]]) is None
    assert blackboard.last(tuple[Raw, ...]) is None


async def test_a_context_under_test_takes_an_empty_list_for_what_the_action_takes() -> None:
    context = FakeOperationContext([])
    assert await context.perform(Approvals().approvers) == [Approver("nobody in particular")]


EMPTY: list[tuple[Any, Any, object]] = [
    (dict[str, Any], dict[str, Any], {}),
    (list[Any], Sequence[Any], []),
    (Page[Any], Page[Any], Page()),
    (Counter[str], dict[str, int], Counter[str]()),
    (Counter[str], Mapping[str, int], Counter[str]()),
    (defaultdict[str, Raw], dict[str, Raw], defaultdict[str, Raw]()),
    (OrderedDict[str, Raw], dict[str, Raw], OrderedDict[str, Raw]()),
]


@pytest.mark.parametrize(("gives", "takes", "empty"), EMPTY)
async def test_what_is_empty_counts_for_all_that_its_declared_type_is(gives: Any, takes: Any, empty: object) -> None:
    async def make(self: object, said: UserInput) -> Any:
        return empty

    async def out(self: object, made: Any) -> Report:
        return Report(repr(made))

    make.__annotations__["return"], out.__annotations__["made"] = gives, takes
    members = {"make": action(make), "out": achieves_goal(description="g")(out)}
    Counting = agent(description="Counts")(type("Counting", (), members))  # noqa: N806 - it is a class
    assert plan_of(Counting, given=[UserInput]) == ["make", "out"]
    process = await AgentPlatform([Counting]).run("Counting", UserInput(""))
    assert value_of(process) == Report(repr(empty))


async def test_what_holds_anything_is_no_collection_of_something_while_it_is_empty() -> None:
    board = Blackboard()
    board.add(Typed({}, dict[str, Any]))
    assert board.last(dict[str, Any]) == {}
    assert board.last(dict[str, Raw]) is None
    board.add(Typed({"a": Raw("x")}, dict[str, Any]))
    assert board.last(dict[str, Raw]) == {"a": Raw("x")}


async def test_the_kinds_of_what_a_collection_holds_are_told_where_it_is_not_what_was_declared() -> None:
    @agent(description="Errs")
    class Erring:
        @achieves_goal(description="g")
        async def out(self, said: UserInput) -> list[Clean]:
            return [Clean("c"), Raw("r")]  # type: ignore[list-item]

    process = await AgentPlatform([Erring]).run("Erring", UserInput(""))
    assert "declares that it returns list[Clean], but it returned a list of Clean and Raw." in str(process.outcome)


class Catch(SomeOf, Generic[T]):
    found: list[T] | None = None
    report: Report | None = None


class RawCatch(Catch[Raw]): ...


async def test_the_parts_of_a_subclass_of_a_generic_result_are_what_it_fills_in() -> None:
    @agent(description="Finds")
    class Finding:
        @action
        async def find(self, said: UserInput) -> RawCatch:
            return RawCatch(found=[])

        @achieves_goal(description="g")
        async def out(self, found: list[Raw]) -> Clean:
            return Clean(repr(found))

    assert plan_of(Finding, given=[UserInput]) == ["find", "out"]
    assert value_of(await AgentPlatform([Finding]).run("Finding", UserInput(""))) == Clean("[]")
