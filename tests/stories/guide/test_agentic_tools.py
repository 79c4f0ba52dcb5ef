"""Tools that use a model to orchestrate other tools (section 3.9.4)."""

from dataclasses import dataclass

import pytest

from goalport import AgentPlatform, Ai, LlmOptions, Tool, UserInput, achieves_goal, action, agent, component, tool
from goalport.models import ModelCall, ToolReply
from goalport.runtime import AgenticTool, AgentProcess, Completed
from goalport.testing import ScriptedModel, ScriptedModels, calls_tool, contains
from goalport.tools import Parameter


def add(a: float, b: float) -> float:
    """Adds two numbers"""
    return a + b


def multiply(a: float, b: float) -> float:
    """Multiplies two numbers"""
    return a * b


class SearchTools:
    @tool(description="Search the web")
    def search(self, query: str) -> str:
        return f"Results for: {query}"


class CalculatorTools:
    @tool(description="Add two numbers")
    def add(self, a: int, b: int) -> int:
        return a + b

    @tool(description="Multiply two numbers")
    def multiply(self, a: int, b: int) -> int:
        return a * b


ORCHESTRATOR = (
    AgenticTool("math-orchestrator", "Orchestrates math operations")
    .with_parameters(Parameter("problem", str, "The problem to solve"))
    .with_tools(add, multiply)
    .with_llm(LlmOptions(model="gpt-4"))
    .with_system_prompt("Use the available tools to solve the given math problem")
)


@dataclass(frozen=True)
class Solution:
    text: str


@agent(description="Solves what the user asks")
class Solver:
    def __init__(self, orchestrator: Tool) -> None:
        self.orchestrator = orchestrator

    @achieves_goal(description="Have it solved")
    @action
    async def solve(self, user_input: UserInput, ai: Ai) -> Solution:
        return Solution(await ai.with_default_llm().with_tools(self.orchestrator).generate_text(user_input.content))


def names_in(call: ModelCall) -> list[str]:
    return [each.name for each in call.tools]


def results_in(call: ModelCall) -> list[str]:
    return [each.content for each in call.messages if isinstance(each, ToolReply)]


async def test_it_is_used_like_any_other_tool() -> None:
    models = ScriptedModels()
    models.when_generate_text("What is 5 + 3 * 2?").then_reply(
        calls_tool("math-orchestrator", problem="5 + 3 * 2"), "It is 11."
    )
    models.when_generate_text(contains("problem")).then_reply(
        calls_tool("multiply", a=3, b=2), calls_tool("add", a=5, b=6), "11"
    )
    process = await AgentPlatform([Solver(ORCHESTRATOR)], models=models).run("Solver", UserInput("What is 5 + 3 * 2?"))

    assert process.outcome == Completed(Solution("It is 11."))
    outer, inner, *_, last_inner, last = models.calls
    assert names_in(outer) == ["math-orchestrator"]
    assert names_in(inner) == ["add", "multiply"]
    assert inner.options.model == "gpt-4"
    assert inner.messages[0].content == "Use the available tools to solve the given math problem"
    assert results_in(last_inner) == ["6.0", "11.0"]
    assert results_in(last) == ["11"]


async def test_without_a_system_prompt_the_description_is_its_task() -> None:
    researcher = (
        AgenticTool("researcher", "Research a topic thoroughly")
        .with_parameters(Parameter("topic", str, "The topic to research"))
        .with_tool_objects(SearchTools())
    )
    model = ScriptedModel([calls_tool("researcher", topic="bees"), calls_tool("search", query="bees"), "Buzz", "Buzz"])
    await AgentPlatform([Solver(researcher)], models=model).run("Solver", UserInput("What about bees?"))
    system, user = model.calls[1].messages
    assert "Research a topic thoroughly" in system.content
    assert user.content == '{"topic":"bees"}'
    assert results_in(model.calls[2]) == ["Results for: bees"]


def test_the_parameters_are_what_a_calling_model_is_told() -> None:
    calculator = (
        AgenticTool("smart-calculator", "Perform complex calculations")
        .with_parameters(Parameter("expression", str, "Mathematical expression to evaluate"))
        .with_parameters(Parameter("precision", int, "Decimal places for result", required=False))
        .with_tool_objects(CalculatorTools())
    )
    properties = calculator.input_schema["properties"]
    assert isinstance(properties, dict)
    assert properties["expression"] == {"type": "string", "description": "Mathematical expression to evaluate"}
    assert properties["precision"]["description"] == "Decimal places for result"
    assert calculator.input_schema["required"] == ["expression"]


async def test_tools_of_several_objects_and_of_objects_that_have_none() -> None:
    assistant = AgenticTool("assistant", "Multi-capability assistant").with_tool_objects(
        SearchTools(), Solution("no tool"), CalculatorTools()
    )
    model = ScriptedModel([calls_tool("assistant"), "done", "done"])
    await AgentPlatform([Solver(assistant)], models=model).run("Solver", UserInput("Help"))
    assert names_in(model.calls[1]) == ["search", "add", "multiply"]


@component
class ResearchOrchestrator:
    """Holds the services that its tools need."""

    def __init__(self, search_tools: SearchTools) -> None:
        self.search_tools = search_tools

    @tool(description="Search the web for information")
    def find(self, query: str) -> str:
        return self.search_tools.search(query)


async def test_its_tools_may_be_those_of_an_object_with_services() -> None:
    research = AgenticTool("research-assistant", "Research topics").with_tool_objects(
        ResearchOrchestrator(SearchTools())
    )
    model = ScriptedModel([calls_tool("research-assistant"), calls_tool("find", query="bees"), "done", "done"])
    await AgentPlatform([Solver(research)], models=model).run("Solver", UserInput("Help"))
    assert results_in(model.calls[2]) == ["Results for: bees"]


async def test_copies_with_changes() -> None:
    base = AgenticTool("base", "Base orchestrator").with_tools(add).with_system_prompt("Original prompt")
    copies = [
        base,
        base.with_llm(LlmOptions(model="gpt-4")),
        base.with_tools(multiply, SearchTools().search),
        base.with_system_prompt("Updated prompt"),
        base.with_tool_objects(SearchTools()),
    ]
    seen: list[tuple[str | None, list[str], str]] = []
    for copy in copies:
        models = ScriptedModels()
        models.when_generate_text("Go").then_reply(calls_tool("base"), "done")
        models.when_generate_text("{}").then_return("done")
        await AgentPlatform([Solver(copy)], models=models).run("Solver", UserInput("Go"))
        inner = models.calls[1]
        seen.append((inner.options.model, names_in(inner), inner.messages[0].content))
    assert seen == [
        (None, ["add"], "Original prompt"),
        ("gpt-4", ["add"], "Original prompt"),
        (None, ["add", "multiply", "search"], "Original prompt"),
        (None, ["add"], "Updated prompt"),
        (None, ["add", "search"], "Original prompt"),
    ]


async def test_a_system_prompt_made_of_the_process_that_runs() -> None:
    def prompt(process: AgentProcess) -> str:
        return f"Process requests for user {process.blackboard.get('user_id', str)} using the available tools"

    model = ScriptedModel([calls_tool("math-orchestrator", problem="1"), "1", "1"])
    platform = AgentPlatform(
        [Solver(ORCHESTRATOR.with_llm("scripted").with_system_prompt_creator(prompt))], models=model
    )
    await platform.run("Solver", UserInput("Go"), bindings={"user_id": "u-7"})
    assert model.calls[1].messages[0].content == "Process requests for user u-7 using the available tools"


async def test_they_compose() -> None:
    researcher = AgenticTool("researcher", "Finds out").with_tool_objects(SearchTools())
    supervisor = AgenticTool("supervisor", "Has others work").with_tools(researcher, ORCHESTRATOR.with_llm("scripted"))
    model = ScriptedModel(
        [
            calls_tool("supervisor"),
            [calls_tool("researcher")],
            calls_tool("search", query="price"),
            "It costs 3",
            calls_tool("math-orchestrator", problem="3 + 3"),
            calls_tool("add", a=3, b=3),
            "6",
            "6 for both",
            "You pay 6",
        ]
    )
    process = await AgentPlatform([Solver(supervisor)], models=model).run("Solver", UserInput("What do two cost?"))
    assert process.outcome == Completed(Solution("You pay 6"))
    assert process.usage.input_tokens == pytest.approx(9 * model.usage.input_tokens)
    assert results_in(model.calls[-1]) == ["6 for both"]
