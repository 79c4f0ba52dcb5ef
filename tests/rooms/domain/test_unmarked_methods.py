"""What is said to somebody who forgot a mark, or wrote it another way."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from goalport import AgentPlatform, Export, UserInput, achieves_goal, action, agent, condition
from goalport.agents.domain import read_agent
from goalport.base.errors import DeclarationError
from goalport.runtime.platform import mistakes_in, remarks_in
from goalport.workspace import load_workspace
from tests.rooms.toy_domain import Story


@dataclass(frozen=True)
class Book:
    text: str


@agent
class Documented:
    """Writes books."""

    @achieves_goal(description="g")
    async def write(self, said: UserInput) -> Book:
        return Book(said.content)


def test_an_agent_needs_no_parentheses_where_its_docstring_says_what_it_is_for() -> None:
    assert read_agent(Documented).description == "Writes books."


@agent
class Silent:
    @achieves_goal(description="g")
    async def write(self, said: UserInput) -> Book:
        return Book(said.content)


@agent(description="d")
class Forgetful:
    @action
    async def think(self, said: UserInput) -> Story:
        return Story("")

    def write(self, story: Story) -> Book:
        return Book(story.text)


@agent(description="d")
class Misspelt:
    @achieves_goal(description="g")
    async def write(self, story: "Storry") -> Book:  # type: ignore[name-defined] # noqa: F821
        raise AssertionError


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (Silent, "in a docstring, or by @agent"),
        (Forgetful, "no method achieves one, and write has no decorator"),
        (Misspelt, "Did you mean 'Story'?"),
    ],
)
def test_the_message_says_what_was_forgotten(declared: object, words: str) -> None:
    with pytest.raises(DeclarationError) as said:
        read_agent(declared)
    assert words in str(said.value)


def test_a_class_with_actions_that_is_no_agent_is_told(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "forgotten.py").write_text(
        "from pydantic import BaseModel\nfrom goalport import State, UserInput, achieves_goal, agent\n\n"
        "class Plain(BaseModel):\n    text: str\n\n"
        "class Base:\n    @achieves_goal(description='g')\n    def a(self, said: UserInput) -> str: return ''\n\n"
        "@agent(description='d')\nclass Used(Base): ...\n\n"
        "class Stage(State):\n    @achieves_goal(description='g')\n    def b(self) -> str: return ''\n\n"
        "class Lost:\n    @achieves_goal(description='g')\n    def c(self, said: UserInput) -> str: return ''\n"
    )
    (problem,) = load_workspace(tmp_path).problems
    assert "Lost has methods that are marked as actions, but is not marked as an agent." in str(problem)


@agent(description="d")
class Halfway:
    def think(self, said: UserInput) -> Story | None:
        return Story(said.content)

    def again(self, story: Story) -> Story:
        return story

    @achieves_goal(description="g", export=Export(remote=True, starting_input_types=[UserInput]))
    async def write(self, story: Story) -> Book:
        return Book(story.text)

    @achieves_goal(description="g", export=Export(remote=True))
    async def rewrite(self, story: Story) -> str:
        return story.text


THINK = "Halfway.think would give a Story, but is not marked as an action: put @action above it."


def test_a_method_without_a_mark_that_would_give_what_is_missing_is_told() -> None:
    platform = AgentPlatform([Halfway])
    (mistake,) = mistakes_in(platform.agents, platform.groups)
    assert THINK in mistake.fix
    assert THINK in platform.explain("write", [UserInput]).text()


def test_so_is_one_for_want_of_which_a_goal_starts_from_what_it_would_give() -> None:
    platform = AgentPlatform([Halfway])
    assert remarks_in(platform.agents, platform.groups) == (THINK,)


@agent(description="d")
class Tupled:
    @action
    def think(self, said: UserInput) -> tuple[Story, Book]:
        return Story(said.content), Book("")

    @achieves_goal(description="g", export=Export(remote=True, starting_input_types=[UserInput]))
    async def write(self, story: Story) -> str:
        return story.text

    @achieves_goal(description="g", export=Export(remote=True))
    async def bind(self, book: Book) -> str:
        return book.text


def test_a_tuple_in_which_a_method_gives_what_is_missing_is_told_with_what_to_return() -> None:
    platform = AgentPlatform([Tupled])
    (mistake,) = mistakes_in(platform.agents, platform.groups)
    (remark,) = remarks_in(platform.agents, platform.groups)
    told = "Tupled.think would give a Story, but returns tuple[Story, Book], which is one object to the planner"
    assert told in mistake.fix
    assert told in platform.explain("write", [UserInput]).text()
    assert remark.startswith("Tupled.think would give a Book, but returns tuple")
    assert "return a SomeOf, a class with a field for each part." in remark


def test_a_method_without_self_is_refused() -> None:
    @agent(description="d")
    class Selfless:
        @achieves_goal(description="g")
        def write(story: Story) -> Book:  # type: ignore[misc] # noqa: N805
            return Book(story.text)

    with pytest.raises(DeclarationError) as said:
        read_agent(Selfless)
    assert "expected a method whose first parameter is self, but it is 'story'. Write `def write(self, …)`." in str(
        said.value
    )


@pytest.mark.parametrize("mark", [agent, action, condition])
def test_a_description_without_its_name_is_told(mark: Any) -> None:
    with pytest.raises(TypeError, match="Expected settings by their names, but got 'd'"):
        mark("d")(Story)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("from goalport import achieve_goal", "Did you mean 'achieves_goal'?"),
        ("class UserInput: ...\n\ndef a(said: UserInputt) -> str: ...", "Did you mean 'UserInput'?"),
    ],
)
def test_a_misspelt_name_is_told_with_the_nearest(tmp_path: Path, source: str, words: str) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "misspelt.py").write_text(source)
    (problem,) = load_workspace(tmp_path).problems
    assert words in problem.message


@agent(description="d")
class Polishing:
    @condition
    async def is_long(self, story: Story) -> bool:
        return len(story.text) > 3

    @action
    async def think(self, said: UserInput) -> Story:
        return Story(said.content)

    @action(cost=0.9)
    async def publish(self, story: Story) -> Book:
        return Book(story.text)

    @action(pre=["is_long"], cost=0.1)
    async def shorten(self, story: Story) -> Book:
        return Book(story.text[:3])

    @achieves_goal(description="g")
    async def sell(self, book: Book) -> str:
        return book.text


async def test_a_condition_on_what_is_made_on_the_way_is_no_mistake_where_there_is_another_way() -> None:
    platform = AgentPlatform([Polishing])
    assert mistakes_in(platform.agents, platform.groups) == ()
    text = platform.explain("sell", [UserInput]).text()
    assert "no other way" not in text
    assert "No other way is known before something has run." in text
    assert "The condition is_long counts as false here: it looks at what is made on the way" in text
    process = await platform.run("Polishing", UserInput("long"))
    assert [each.action for each in process.history][1] == "Polishing.shorten"
