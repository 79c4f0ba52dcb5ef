"""Agents that derive from generic classes: inherited methods have the types that the subclass gives as arguments."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import pytest

from goalport import (
    AgentPlatform,
    ProcessStatus,
    Provided,
    State,
    UserInput,
    achieves_goal,
    action,
    agent,
    component,
    condition,
    cost,
    tool,
)
from goalport.base.errors import DeclarationError
from goalport.runtime.process import Completed
from goalport.tools import Tool
from goalport.workspace import load_workspace
from goalport.workspace.settings import load_settings

T = TypeVar("T")
Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Invoice:
    text: str


@dataclass(frozen=True)
class Receipt:
    text: str


@dataclass(frozen=True)
class Filed(Generic[T]):
    document: T


@dataclass(frozen=True)
class Shelf:
    texts: tuple[str, ...]


class Reader(Generic[T]):
    kind: type[T]

    @action(post=["is_legible"])
    def read(self, user_input: UserInput) -> T | None:
        return self.kind(user_input.content) if user_input.content else None  # type: ignore[call-arg]

    @condition
    def is_legible(self, document: T) -> bool:
        return "ink" in str(document)

    @cost
    def effort(self, document: T | None) -> float:
        return 0.1 if isinstance(document, self.kind) else 0.9


class Filer(Reader[Kept], Generic[Kept]):
    @action(pre=["is_legible"], cost_method="effort")
    def file(self, document: Kept, cabinet: Annotated["Cabinet", Provided]) -> list[Filed[Kept]]:
        return [Filed(document)]


class Cabinet:
    pass


@agent(description="Files invoices")
class Invoices(Filer[Invoice]):
    kind = Invoice

    @achieves_goal(description="A shelf")
    def put(self, filed: list[Filed[Invoice]]) -> Shelf:
        return Shelf(tuple(each.document.text for each in filed))


@agent(description="Files receipts")
class Receipts(Filer[Receipt]):
    kind = Receipt

    @achieves_goal(description="A shelf")
    def put(self, filed: list[Filed[Receipt]]) -> Shelf:
        return Shelf(tuple(f"r {each.document.text}" for each in filed))


@pytest.mark.parametrize(("name", "shelf"), [("Invoices", Shelf(("ink",))), ("Receipts", Shelf(("r ink",)))])
async def test_an_inherited_action_takes_and_gives_what_the_subclass_says(name: str, shelf: Shelf) -> None:
    async with AgentPlatform([Invoices, Receipts], services=[Cabinet()]) as platform:
        assert (await platform.run(name, UserInput("ink"))).outcome == Completed(shelf)
        assert (await platform.run(name, UserInput("chalk"))).status is ProcessStatus.STUCK
        assert (await platform.run(name, UserInput(""))).status is ProcessStatus.STUCK


class Approval(State, Generic[T]):
    @achieves_goal(description="Shelved")
    def shelve(self, document: T) -> Shelf:
        return Shelf((type(document).__name__,))


class ReceiptApproval(Approval[Receipt]):
    pass


@agent(description="Approves")
class Approver:
    @action
    def begin(self, user_input: UserInput) -> ReceiptApproval:
        return ReceiptApproval()


@component
class Receipting(Reader[Receipt]):
    kind = Receipt


async def test_states_and_components_derive_from_generic_classes_too() -> None:
    async with AgentPlatform([Approver, Receipting]) as platform:
        process = await platform.run("Approver", UserInput("ink"))
        assert process.outcome == Completed(Shelf(("Receipt",)))


class Catalogue(Generic[T]):
    @tool
    def find(self, wanted: T) -> list[T]:
        """Find what is like it."""
        return [wanted]


class Numbers(Catalogue[int]):
    pass


def test_an_inherited_tool_has_the_types_of_the_subclass() -> None:
    (found,) = Tool.from_instance(Numbers())
    assert found.input_schema["properties"] == {"wanted": {"type": "integer"}}


def mistake_in(declared: type) -> str:
    with pytest.raises(DeclarationError) as caught:
        AgentPlatform([declared])
    return str(caught.value)


def test_a_type_parameter_that_stays_open_is_told_with_what_to_write() -> None:
    @agent(description="d")
    class Bare(Filer):  # type: ignore[type-arg]
        @achieves_goal(description="g")
        def put(self, filed: list[Filed[Invoice]]) -> Shelf:
            raise AssertionError

    said = mistake_in(Bare)
    assert "Bare.effort (" in said
    assert "test_generic_bases.py:" in said
    assert "nothing says what Kept is" in said
    assert "Derive the class that you deploy from `Filer[…]`, with a type of your own as Kept." in said


def test_a_generic_class_is_not_deployed_itself() -> None:
    @agent(description="d")
    class Open(Generic[T]):
        @achieves_goal(description="g")
        def put(self, document: Filed[T]) -> Shelf:
            raise AssertionError

    said = mistake_in(Open)
    assert "'document'" in said
    assert "from `Open[…]`, with a type of your own as T." in said


NEW_SYNTAX = """
from dataclasses import dataclass

from goalport import UserInput, achieves_goal, action, agent


@dataclass
class Invoice:
    text: str


@dataclass
class Shelf:
    text: str


class Reader[T]:
    kind: type[T]

    @action
    def read(self, user_input: UserInput) -> "list[T] | None":
        return [self.kind(user_input.content)]


class Filer[K, T](Reader[K]):
    @achieves_goal(description="A shelf")
    def put(self, documents: "list[K]") -> T:
        return self.shelf(documents[0].text)


@agent(description="Files invoices")
class Invoices(Filer[Invoice, Shelf]):
    kind, shelf = Invoice, Shelf
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Brackets behind the name of a class are new in Python 3.12")
async def test_type_parameters_in_brackets_are_looked_up_also_in_quotes(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "invoices.py").write_text(NEW_SYNTAX)
    async with AgentPlatform.from_workspace(load_workspace(tmp_path), load_settings(tmp_path)) as platform:
        process = await platform.run("Invoices", UserInput("ink"))
        assert isinstance(process.outcome, Completed)
        assert vars(process.outcome.value) == {"text": "ink"}
