"""Tools that come and go in a conversation: playbooks, state machines, tools of objects, and tools for one call."""

from dataclasses import dataclass
from enum import Enum

import pytest

from goalport.base.errors import DeclarationError
from goalport.models.llm import ModelCall, ToolReply
from goalport.runtime.ai import AgenticTool, PlaybookTool, StateMachineTool, Unlock, after, after_artifact, after_calls
from goalport.testing import calls_tool
from goalport.tools import Tool, ToolResult, tool
from tests.rooms.ai.scripted import scripted

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Account:
    """A bank account, with what can be done with it."""

    owner: str

    @tool
    def balance(self) -> str:
        """Show the balance."""
        return f"{self.owner} has 7 euros"

    @tool
    def close(self) -> str:
        """Close the account."""
        return "closed"


@tool
def search(query: str) -> str:
    """Search."""
    if query == "nothing":
        raise ValueError("nothing found")
    return f"about {query}"


@tool
def sum_up() -> str:
    """Sum up."""
    return "in short"


@tool
def publish() -> str:
    """Publish."""
    return "published"


@tool
def find_account(owner: str) -> ToolResult:
    """Find an account."""
    return ToolResult.of_artifact(f"the account of {owner}", Account(owner))


def offered(call: ModelCall) -> list[str]:
    return [each.name for each in call.tools]


def told(call: ModelCall) -> list[str]:
    return [each.content for each in call.messages if isinstance(each, ToolReply)]


async def test_a_playbook_unlocks_a_tool_after_another_has_succeeded() -> None:
    research = PlaybookTool("research", "Researches").with_tools(search).with_locked(sum_up, unlock=after(search))
    ai, model = scripted(
        calls_tool("research"),
        calls_tool("search", query="nothing"),
        calls_tool("search", query="herons"),
        calls_tool("sum_up"),
        "Herons, in short.",
        "Done",
    )
    assert await ai.with_tools(research).generate_text("Research herons") == "Done"
    _, first, second, third, fourth, _ = model.calls
    assert [offered(each) for each in (first, second, third, fourth)] == [
        ["search"],
        ["search"],
        ["search", "sum_up"],
        ["search", "sum_up"],
    ]


async def test_a_locked_tool_that_is_called_does_nothing() -> None:
    research = PlaybookTool("research", "Researches").with_tools(search).with_locked(sum_up, unlock=after("search"))
    ai, model = scripted(calls_tool("research"), calls_tool("sum_up"), "Well.", "Done")
    await ai.with_tools(research).generate_text("Research herons")
    assert told(model.calls[2]) == ["The tool 'sum_up' cannot be called now. You can call: search."]


async def test_conditions_of_a_playbook_can_be_combined() -> None:
    tools = (
        PlaybookTool("work", "Works")
        .with_tools(search, find_account)
        .with_locked(sum_up, unlock=after_calls(2) & ~after("publish"))
        .with_locked(publish, unlock=after_artifact(Account) | after("search", times=2))
    )
    ai, model = scripted(
        calls_tool("work"),
        calls_tool("search", query="a"),
        calls_tool("find_account", owner="Ada"),
        calls_tool("publish"),
        "Published.",
        "Done",
    )
    await ai.with_tools(tools).generate_text("Work")
    assert offered(model.calls[2]) == ["search", "find_account"]
    assert offered(model.calls[3]) == ["search", "find_account", "sum_up", "publish"]
    assert offered(model.calls[4]) == ["search", "find_account", "publish"]


def test_what_unlocks_is_a_condition_and_what_is_waited_for_a_class() -> None:
    with pytest.raises(TypeError, match="Expected a condition"):
        PlaybookTool("work", "Works").with_locked(sum_up, unlock="search")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="Expected the class of an object"):
        after_artifact("Account")  # pyright: ignore[reportArgumentType]


async def test_a_condition_of_ones_own_sees_the_calls_and_their_results() -> None:
    about_herons = Unlock(lambda uses: any("herons" in each.result.text for each in uses))
    research = PlaybookTool("research", "Researches").with_tools(search).with_locked(sum_up, unlock=about_herons)
    ai, model = scripted(calls_tool("research"), calls_tool("search", query="herons"), "Herons.", "Done")
    await ai.with_tools(research).generate_text("Research")
    assert offered(model.calls[2]) == ["search", "sum_up"]


class Stage(Enum):
    DRAFT = 1
    REVIEW = 2


async def test_a_state_machine_offers_the_tools_of_its_state() -> None:
    article = (
        StateMachineTool("article", "Writes an article")
        .with_tools(search)
        .in_state(Stage.DRAFT, sum_up, then=Stage.REVIEW)
        .in_state(Stage.REVIEW, publish)
    )
    ai, model = scripted(
        calls_tool("article"),
        calls_tool("search", query="a"),
        calls_tool("sum_up"),
        calls_tool("publish"),
        "Ok",
        "Done",
    )
    await ai.with_tools(article).generate_text("Write")
    assert [offered(each) for each in model.calls[1:5]] == [
        ["search", "sum_up"],
        ["search", "sum_up"],
        ["search", "publish"],
        ["search", "publish"],
    ]


async def test_one_tool_may_belong_to_several_states() -> None:
    loop = (
        StateMachineTool("loop", "Goes round")
        .in_state("a", sum_up, then="b")
        .in_state("b", sum_up, then="a")
        .in_state("b", publish)
    )
    ai, model = scripted(calls_tool("loop"), calls_tool("sum_up"), calls_tool("sum_up"), "Ok", "Done")
    await ai.with_tools(loop).generate_text("Go")
    assert [offered(each) for each in model.calls[1:4]] == [["sum_up"], ["sum_up", "publish"], ["sum_up"]]


def test_a_state_has_a_name() -> None:
    with pytest.raises(DeclarationError, match="it is None"):
        StateMachineTool("loop", "Goes round").in_state(None, sum_up)


async def test_the_tools_of_an_object_are_offered_once_a_tool_has_returned_it() -> None:
    ai, model = scripted(calls_tool("find_account", owner="Ada"), calls_tool("balance"), "She has 7 euros.")
    chained = ai.with_tools(find_account).with_tool_chaining_from(Account)
    assert await chained.generate_text("How much has Ada?") == "She has 7 euros."
    assert [offered(each) for each in model.calls[:2]] == [["find_account"], ["find_account", "balance", "close"]]
    assert "From now on you can call tools of this Account: balance, close." in told(model.calls[1])[0]
    assert told(model.calls[2])[-1] == "Ada has 7 euros"


async def test_the_newest_object_of_a_class_counts() -> None:
    ai, model = scripted(
        calls_tool("find_account", owner="Ada"), calls_tool("find_account", owner="Bob"), calls_tool("balance"), "Ok"
    )
    await ai.with_tools(find_account).with_tool_chaining_from(object).generate_text("How much has Bob?")
    assert offered(model.calls[2]) == ["find_account", "balance", "close"]
    assert [each.endswith("They replace those of the earlier Account.") for each in told(model.calls[2])] == [
        False,
        True,
    ]
    assert told(model.calls[3])[-1] == "Bob has 7 euros"


async def test_which_tools_of_an_object_are_offered_can_be_chosen() -> None:
    ai, model = scripted(calls_tool("find_account", owner="Ada"), "Ok")
    careful = ai.with_tools(find_account).with_tool_chaining_from(
        Account, select=lambda account, each: bool(account.owner) and each.name != "close"
    )
    await careful.generate_text("How much has Ada?")
    assert offered(model.calls[1]) == ["find_account", "balance"]


async def test_objects_of_other_types_lend_no_tools() -> None:
    ai, model = scripted(calls_tool("find_account", owner="Ada"), "Ok")
    await ai.with_tools(find_account).with_tool_chaining_from(Stage).generate_text("How much has Ada?")
    assert offered(model.calls[1]) == ["find_account"]
    with pytest.raises(TypeError, match="classes whose objects have tools"):
        ai.with_tool_chaining_from("Account")  # pyright: ignore[reportArgumentType]


async def test_an_agentic_tool_chains_tools_too() -> None:
    clerk = AgenticTool("clerk", "Knows accounts").with_tools(find_account).with_tool_chaining_from(Account)
    ai, model = scripted(calls_tool("clerk"), calls_tool("find_account", owner="Ada"), "Ok", "Done")
    await ai.with_tools(clerk).generate_text("Ask the clerk")
    assert offered(model.calls[2]) == ["find_account", "balance", "close"]


async def test_a_tool_for_one_call_is_gone_after_it_has_succeeded() -> None:
    once = Tool.of(search).only_once()
    ai, model = scripted(calls_tool("search", query="nothing"), calls_tool("search", query="herons"), "Herons.")
    await ai.with_tools(once, sum_up).generate_text("Search once")
    assert [offered(each) for each in model.calls] == [["search", "sum_up"], ["search", "sum_up"], ["sum_up"]]


async def test_of_two_calls_in_one_turn_the_second_is_refused() -> None:
    once = Tool.of(search).only_once()
    both = [calls_tool("search", query="herons"), calls_tool("sum_up"), calls_tool("search", query="owls")]
    ai, model = scripted(both, "Herons.")
    await ai.with_tools(once, sum_up).generate_text("Search once")
    assert told(model.calls[1]) == [
        "about herons",
        "in short",
        "The tool 'search' cannot be called now. You can call: sum_up.",
    ]


async def test_a_call_that_comes_twice_is_made_once() -> None:
    call = calls_tool("search", query="herons")
    ai, model = scripted([call, call], "Herons.")
    await ai.with_tools(Tool.of(search).only_once()).generate_text("Search once")
    assert told(model.calls[1]) == ["about herons", "The tool 'search' cannot be called now. Answer without it."]


async def test_a_call_that_fails_does_not_count_as_the_one_call() -> None:
    both = [calls_tool("search", query="nothing"), calls_tool("search", query="owls")]
    ai, model = scripted(both, "Owls.")
    await ai.with_tools(Tool.of(search).only_once()).generate_text("Search once")
    assert told(model.calls[1])[1] == "about owls"


async def test_a_state_that_is_left_takes_no_more_calls_of_the_same_turn() -> None:
    desk = StateMachineTool("desk", "Works").in_state("open", publish, then="out").in_state("open", sum_up)
    ai, model = scripted(
        calls_tool("desk"), [calls_tool("publish"), calls_tool("publish"), calls_tool("sum_up")], "Ok", "Done"
    )
    await ai.with_tools(desk).generate_text("Publish")
    assert told(model.calls[2]) == [
        "published",
        "The tool 'publish' cannot be called now. Answer without it.",
        "The tool 'sum_up' cannot be called now. Answer without it.",
    ]


async def test_a_tool_that_a_turn_unlocks_is_offered_before_it_can_be_called() -> None:
    research = PlaybookTool("research", "Researches").with_tools(search).with_locked(sum_up, unlock=after("search"))
    both = [calls_tool("search", query="herons"), calls_tool("sum_up")]
    ai, model = scripted(calls_tool("research"), both, calls_tool("sum_up"), "Ok", "Done")
    await ai.with_tools(research).generate_text("Research herons")
    assert told(model.calls[3]) == [
        "about herons",
        "The tool 'sum_up' cannot be called now. You can call: search.",
        "in short",
    ]


async def test_a_tool_that_was_renamed_is_not_taken_for_the_one_whose_name_it_had() -> None:
    def balance() -> str:
        return "all accounts have 9 euros"

    once = Tool.of(balance, description="Sum up").only_once()
    ai, model = scripted(
        calls_tool("balance"), calls_tool("find_account", owner="Ada"), calls_tool("account_balance"), "Ok"
    )
    await ai.with_tools(once, find_account).with_tool_chaining_from(Account).generate_text("How much?")
    assert offered(model.calls[2]) == ["find_account", "account_balance", "close"]
    assert told(model.calls[3])[-1] == "Ada has 7 euros"


async def test_states_whose_tools_share_a_name_are_refused() -> None:
    desk = (
        StateMachineTool("desk", "Works")
        .in_state("open", publish, then="out")
        .in_state("out", Tool.of(sum_up, name="publish"))
    )
    ai, model = scripted(calls_tool("desk"), "Done")
    await ai.with_tools(desk).generate_text("Publish")
    assert "two are called 'publish'" in told(model.calls[1])[0]


async def test_the_first_state_is_the_initial_one_even_without_tools() -> None:
    desk = StateMachineTool("desk", "Waits").with_tools(search).in_state("asleep").in_state("awake", publish)
    ai, model = scripted(calls_tool("desk"), "Ok", "Done")
    await ai.with_tools(desk).generate_text("Publish")
    assert offered(model.calls[1]) == ["search"]
