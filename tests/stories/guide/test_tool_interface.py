"""Tools that are bound to no framework (section 3.9.3): made of data, of functions and of objects."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import pytest
from pydantic import Field

from goalport import AgentPlatform, Ai, Tool, ToolGroup, UserInput, achieves_goal, action, agent, tool
from goalport.errors import DeclarationError
from goalport.models import ModelCall, ToolReply
from goalport.runtime import Completed
from goalport.testing import ScriptedModel, calls_tool
from goalport.tools import Parameter, ToolResult


def greet() -> str:
    """Greets the user"""
    return "Hello!"


class MathService:
    @tool(description="Adds two numbers together")
    def add(
        self,
        a: Annotated[int, Field(description="First number")],
        b: Annotated[int, Field(description="Second number")],
    ) -> int:
        return a + b

    @tool
    def multiply(self, a: int, b: int = 2) -> int:
        """Multiplies two numbers

        Args:
            a: First number
            b: Second number
        """
        return a * b

    def secret(self) -> str:
        return "no tool"


async def test_a_tool_without_parameters() -> None:
    made = Tool.of(greet)
    assert (made.name, made.description) == ("greet", "Greets the user")
    assert made.input_schema["properties"] == {}
    assert (await made.call({})).text == "Hello!"


async def test_a_tool_with_listed_parameters() -> None:
    def add(arguments: Mapping[str, object]) -> ToolResult:
        a, b = arguments["a"], arguments["b"]
        assert isinstance(a, int)
        assert isinstance(b, int)
        return ToolResult.of_text(str(a + b))

    made = Tool.of(
        add,
        description="Adds two numbers together",
        parameters=[Parameter("a", int, "First number"), Parameter("b", int, "Second number")],
    )
    assert made.input_schema["properties"] == {
        "a": {"type": "integer", "description": "First number"},
        "b": {"type": "integer", "description": "Second number"},
    }
    assert made.input_schema["required"] == ["a", "b"]
    assert (await made.call({"a": "40", "b": 2})).text == "42"
    refused = await made.call({"a": "many"})
    assert refused.is_error
    assert [line.partition(":")[0] for line in refused.text.splitlines()[1:]] == ["- a", "- b"]


def test_parameters_may_be_optional_and_of_any_type_that_json_has() -> None:
    def convert(arguments: Mapping[str, object]) -> str:
        return repr(arguments)

    made = Tool.of(
        convert,
        parameters=[
            Parameter("amount", float, "How much"),
            Parameter("unit", Literal["km", "mi"], "Of what"),
            Parameter("digits", int, "Decimal places", required=False),
        ],
    )
    properties = made.input_schema["properties"]
    assert isinstance(properties, dict)
    assert properties["unit"] == {"type": "string", "enum": ["km", "mi"], "description": "Of what"}
    assert made.input_schema["required"] == ["amount", "unit"]


async def test_what_is_returned_directly_ends_the_conversation_with_the_model() -> None:
    async def look_up(_: Mapping[str, object]) -> ToolResult:
        return ToolResult.of_text("Direct result")

    direct = Tool("lookup", "Looks up data directly", {"type": "object"}, look_up, return_direct=True)
    model = ScriptedModel([calls_tool("lookup"), "never asked for"])
    assert await AgentPlatform(models=model).ai.with_tools(direct).generate_text("Look it up") == "Direct result"
    assert model.unused == 1


async def test_tools_of_all_annotated_methods_of_an_object() -> None:
    add, multiply = Tool.from_instance(MathService())
    assert [(each.name, each.description) for each in (add, multiply)] == [
        ("add", "Adds two numbers together"),
        ("multiply", "Multiplies two numbers"),
    ]
    properties = add.input_schema["properties"]
    assert isinstance(properties, dict)
    assert properties["a"] == {"type": "integer", "description": "First number"}
    assert add.input_schema["required"] == ["a", "b"]
    assert multiply.input_schema["required"] == ["a"]
    assert (await multiply.call({"a": 21})).text == "42"


def test_an_object_without_such_methods_is_an_error_unless_one_is_content_with_none() -> None:
    with pytest.raises(DeclarationError, match="marked with @tool"):
        Tool.from_instance("a text")
    assert Tool.safely_from_instance("a text") == ()


async def test_a_result_is_text_or_comes_with_an_artifact_or_is_an_error() -> None:
    @dataclass(frozen=True)
    class Report:
        pages: int

    results = [
        ToolResult.of_text("The answer is 42"),
        ToolResult.of_artifact("Generated report", Report(3)),
        ToolResult.of_error("Failed to process request"),
    ]
    for result in results:
        assert await Tool.of(lambda: result, name="give").call({}) is result  # noqa: B023 - called at once
    assert [each.artifact for each in results] == [None, Report(3), None]
    assert [each.is_error for each in results] == [False, False, True]


async def test_whatever_a_tool_raises_is_a_result_for_the_model() -> None:
    def fail() -> str:
        raise RuntimeError("the disk is full")

    result = await Tool.of(fail).call({})
    assert result.is_error
    assert "the disk is full" in result.text


def test_copies_differ_in_one_thing() -> None:
    made = Tool.of(greet)
    changed = made.with_name("hail").with_description("Hails").with_note("Loudly.")
    assert (changed.name, changed.description) == ("hail", "Hails\n\nLoudly.")
    assert replace(changed, name="greet", description="Greets the user") == made


@dataclass(frozen=True)
class Sum:
    result: int


@dataclass
class Customer:
    balance: int

    @tool
    def owed(self) -> int:
        """What the customer owes"""
        return self.balance


@agent(description="Calculates")
class Calculator:
    @achieves_goal(description="Know a sum")
    @action
    async def add_up(self, user_input: UserInput, ai: Ai) -> Sum:
        service = MathService()
        return await (
            ai.with_default_llm()
            .with_tool_groups("web")
            .with_tool_objects(Customer(5))
            .with_tools(*Tool.from_instance(service))
            .with_tools(greet)
            .create_object(user_input.content, Sum)
        )


async def test_tools_of_all_kinds_are_offered_together() -> None:
    def search(topic: str) -> str:
        """Search the web"""
        return f"{topic}: 3"

    model = ScriptedModel(
        [
            [calls_tool("owed"), calls_tool("search", topic="discount")],
            calls_tool("add", a="5", b=3),
            Sum(8),
        ]
    )
    platform = AgentPlatform([Calculator], models=model, tool_groups=[ToolGroup.of("web", search)])
    process = await platform.run("Calculator", UserInput("What is owed, with the discount?"))

    assert process.outcome == Completed(Sum(8))
    assert [each.name for each in model.calls[0].tools] == ["search", "owed", "add", "multiply", "greet"]
    assert results_in(model.calls[-1]) == ["5", "discount: 3", "8"]


def results_in(call: ModelCall) -> list[str]:
    return [each.content for each in call.messages if isinstance(each, ToolReply)]
