"""Which tools a model is offered: those of groups as they are now, of references, of objects that were given."""

import logging

import pytest

from goalport.base.errors import DeclarationError
from goalport.knowledge.references import Reference
from goalport.models.llm import ToolReply
from goalport.models.prompts import Text
from goalport.runtime.process.action_progress import fingerprint_of_model_call
from goalport.testing import ScriptedModel, calls_tool
from goalport.tools import CoreToolGroups, Tool, ToolGroup, ToolObject, tool
from tests.rooms.ai.scripted import Watched, ai_with


class Customer:
    def __init__(self, orders: int) -> None:
        self.orders = orders

    @tool
    def loyalty_discount(self) -> float:
        """Calculate the customer's discount in percent."""
        return self.orders * 0.5

    def raise_level(self) -> None:
        """Not for models."""


def search(query: str) -> str:
    """Search the web."""
    return query


def names(model: ScriptedModel) -> list[str]:
    return [each.name for each in model.calls[-1].tools]


async def test_the_tools_of_a_group_are_looked_up_at_each_request() -> None:
    model = ScriptedModel(["x", "y"])
    groups: list[ToolGroup] = []
    ai = ai_with(model, groups=groups).with_tool_groups("web", "web")

    await ai.generate_text("Go")
    groups.append(ToolGroup.of("web", search))
    await ai.generate_text("Go")

    assert [[tool.name for tool in call.tools] for call in model.calls] == [[], ["search"]]


async def test_a_group_that_nobody_plays_is_a_warning_and_no_tools(caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel(["x"])
    ai = ai_with(model, groups=[ToolGroup.of("web", search)])

    with caplog.at_level(logging.WARNING):
        assert await ai.with_tool_groups("wob").generate_text("Go") == "x"

    assert names(model) == []
    assert "No tool group plays the role 'wob'. Did you mean 'web'?" in caplog.text


async def test_a_model_is_told_what_is_missing_now_and_it_is_the_same_request_without_that() -> None:
    model = ScriptedModel(["x", "y", "z", "streamed"])
    operation = Watched()
    ai = ai_with(model, groups=[ToolGroup.of("web", search)], operation=operation).with_tool_groups("web")
    both = ai.with_tool_groups("wob")

    await ai.generate_text("Go")
    await both.generate_text("Go")
    await both.with_system_prompt("Be brief.").generate_text("Go")
    assert "".join([each async for each in both.streaming().text("Go")]) == "streamed"

    why = "No tool group plays the role 'wob'. Did you mean 'web'?"
    told = (
        "Some of your tools are missing now. There is no tool group 'wob'. "
        "Make nothing up in their place: say what you could not do without them."
    )
    said = [[each.content for each in call.messages] for call in model.calls]
    assert said == [["Go"], [told, "Go"], [f"Be brief.\n\n{told}", "Go"], [told, "Go"]]
    assert len({fingerprint_of_model_call("m", call) for call in model.calls}) == 2
    assert operation.missing == [("wob", why)] * 3


async def test_an_objects_tools_are_offered_when_it_is_given_and_no_other_methods() -> None:
    model = ScriptedModel(["x", "y", "z"])
    ai = ai_with(model)
    customer = Customer(4)

    await ai.generate_text(f"Recommend something to {customer}")
    assert names(model) == []

    await ai.with_tool_objects(customer).generate_text("Recommend something")
    assert names(model) == ["loyalty_discount"]

    await ai.with_tool_objects(ToolObject(customer).with_prefix("customer_")).generate_text("Recommend something")
    assert names(model) == ["customer_loyalty_discount"]


async def test_an_object_without_tools_is_refused_where_it_is_given() -> None:
    with pytest.raises(DeclarationError, match="methods that are marked with @tool"):
        ai_with(ScriptedModel()).with_tool_objects(object())


async def test_the_same_tool_from_two_places_is_offered_once() -> None:
    model = ScriptedModel(["x"])
    customer = Customer(1)
    ai = ai_with(model, groups=[ToolGroup.of("web", search), ToolGroup.of("news", search)])

    await (
        ai.with_tool_groups("web", "news").with_tools(search).with_tool_objects(customer, customer).generate_text("Go")
    )

    assert names(model) == ["search", "loyalty_discount"]


async def test_two_tools_of_one_name_are_an_error_that_says_where_both_are_from() -> None:
    model = ScriptedModel(["never"])
    other = Tool.of(lambda: "x", name="search")
    ai = ai_with(model, groups=[ToolGroup.of("web", search)]).with_tool_groups("web")

    with pytest.raises(DeclarationError, match=r"'search': one of the tool group 'web', and one of those given with"):
        await ai.with_tools(other).generate_text("Go")
    with pytest.raises(DeclarationError, match="from different objects"):
        await ai.with_tool_objects(Customer(1), Customer(2)).generate_text("Go")

    assert not model.calls


async def test_the_tools_of_a_reference_stand_under_its_name() -> None:
    model = ScriptedModel(["x"])
    find = Tool.of(search, name="find")

    await (
        ai_with(model)
        .with_references(Reference("Guide", "The guide", given_tools=(find,)), Reference("My-API.v2", "", "", (find,)))
        .generate_text("Go")
    )

    assert names(model) == ["guide_find", "my_api_v2_find"]


async def test_a_name_that_providers_refuse_is_made_one_that_they_take() -> None:
    model = ScriptedModel([calls_tool("files_read_v2", query="x"), "done"])
    read = Tool.of(search, name="files/read.v2")
    long = Tool.of(search, name="x" * 80)

    assert await ai_with(model).with_tools(read, long).generate_text("Go") == "done"

    assert names(model) == ["files_read_v2", "x" * 64]
    assert [each.content for each in model.calls[1].messages if isinstance(each, ToolReply)] == ["x"]


async def test_names_that_become_one_name_are_an_error() -> None:
    ai = ai_with(ScriptedModel())

    with pytest.raises(DeclarationError, match="'files_read'"):
        await ai.with_tools(Tool.of(lambda: 1, name="files.read"), Tool.of(lambda: 2, name="files/read")).generate_text(
            "Go"
        )


async def test_the_guides_names_do_what_ours_do() -> None:
    model = ScriptedModel(["x"])
    ai = ai_with(model, groups=[ToolGroup.of(CoreToolGroups.WEB, search)])
    asked = (
        ai.with_tool_group(CoreToolGroups.WEB)
        .with_tool_object(Customer(3))
        .with_reference(Reference("docs", "Docs", "All about docs"))
        .with_prompt_contributor(Text("Be brief."))
    )

    await asked.generate_text("Go")

    assert names(model) == ["search", "loyalty_discount"]
    told = str(model.calls[-1].messages[0].content)
    assert "Be brief." in told
    assert "All about docs" in told
    assert ai.with_llm_by_role("best").interaction.llm.role == "best"
