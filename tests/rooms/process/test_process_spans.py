"""The spans of a process: one around it, one around each action, those of models and tools within."""

from collections.abc import Generator
from dataclasses import dataclass

import pytest
from opentelemetry.trace import StatusCode

from goalport import AgentPlatform, Ai, Budget, ProcessOptions, UserInput, achieves_goal, action, agent, tool
from goalport.testing.scripted import ScriptedModel, calls_tool
from goalport.tools import ToolGroup
from tests.spans import Spans, recorded_spans


@pytest.fixture
def spans() -> Generator[Spans]:
    with recorded_spans() as found:
        yield found


@dataclass(frozen=True)
class Sum:
    text: str


@agent(description="Adds")
class Adder:
    @achieves_goal(description="A sum")
    @action(tool_groups=["maths"])
    async def add(self, user_input: UserInput, ai: Ai) -> Sum:
        return Sum(await ai.generate_text(user_input.content))


@tool
def plus(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_models_and_tools_stand_in_their_action_and_that_in_its_process(spans: Spans) -> None:
    model = ScriptedModel([calls_tool("plus", a=1, b=2), "Three."])
    platform = AgentPlatform([Adder], models=model, tool_groups=[ToolGroup.of("maths", plus)])
    process = await platform.run("Adder", UserInput("1 + 2?"))

    assert spans.names == [
        "chat scripted",
        "execute_tool plus",
        "chat scripted",
        "execute_action Adder.add",
        "invoke_agent Adder",
    ]
    assert spans.parent("execute_tool plus") == "execute_action Adder.add"
    assert spans.parent("execute_action Adder.add") == "invoke_agent Adder"
    told = spans.attributes("invoke_agent Adder")
    assert told["goalport.process.id"] == process.id
    assert told["goalport.process.status"] == "completed"
    assert told["goalport.usage.input_tokens"] == 200
    told = spans.attributes("execute_action Adder.add")
    assert (told["goalport.action.status"], told["goalport.usage.output_tokens"]) == ("succeeded", 20)


async def test_an_action_that_fails_is_marked_and_one_whose_budget_is_spent_is_not(spans: Spans) -> None:
    model = ScriptedModel([OSError("broken line")])
    await AgentPlatform([Adder], models=model).run("Adder", UserInput(""))
    failed = spans.one("execute_action Adder.add")
    assert failed.status.status_code is StatusCode.ERROR
    assert spans.attributes("invoke_agent Adder")["goalport.process.status"] == "failed"

    with recorded_spans() as again:
        model = ScriptedModel([calls_tool("plus", a=1, b=2)] * 3)
        platform = AgentPlatform([Adder], models=model, tool_groups=[ToolGroup.of("maths", plus)])
        await platform.run("Adder", UserInput(""), options=ProcessOptions(budget=Budget(tokens=100)))
        assert again.one("execute_action Adder.add").status.status_code is StatusCode.UNSET
        assert again.attributes("execute_action Adder.add")["goalport.action.status"] == "terminated"
        assert again.attributes("invoke_agent Adder")["goalport.process.status"] == "terminated"
