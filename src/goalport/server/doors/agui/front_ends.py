"""What a front end tells a chatbot besides messages, and the calls of its own tools: they end a run, and the next one
brings what came of them.

`runs` and the runs of chatbots are above.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    FunctionCall,
    Message,
    RunAgentInput,
    Tool,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

from goalport.runtime.chat import AgentProcessChatbot, FrontEnd, FrontEndCall, OfferedTool
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess, Question
from goalport.server.doors.agui.interrupts import Answer
from goalport.server.doors.agui.transcript import STATE
from goalport.server.publish.portability import Schema
from goalport.tools import schema_fault

_LEFT_OUT: Final = "It went on without a result."


def takes_front_end(platform: AgentPlatform, chatbot: AgentProcessChatbot) -> bool:
    """Whether an action of a chatbot takes a `FrontEnd`: for others, what a front end offers means nothing."""
    actions = platform.agents.scope(chatbot.name).actions.values()
    return any(each.type is FrontEnd for action in actions for taken in action.inputs for each in taken.leaves)


def offer_problems(tools: Sequence[Tool]) -> Iterator[str]:
    """What is wrong with the tools that a front end offers, in lines."""
    for place, each in enumerate(tools):
        schema = _schema(each)
        fault = schema_fault(cast("Schema", schema)) if isinstance(schema, dict) else "it is no object"
        if fault:
            yield f"tools[{place}].parameters: should be a JSON Schema: {fault}"
        if not each.name.strip():
            yield f"tools[{place}].name: should not be empty"


def front_end_of(given: RunAgentInput) -> FrontEnd:
    """What a front end tells and offers. What the server told in its state before is left out."""
    state = given.state
    if isinstance(state, dict):
        state = {name: each for name, each in cast("dict[str, Any]", state).items() if name != STATE}
    return FrontEnd.of(
        [(each.description, each.value) for each in given.context or ()],
        [OfferedTool(each.name, each.description, json.dumps(_schema(each))) for each in given.tools or ()],
        state=state,
        properties=given.forwarded_props,
    )


def _schema(tool: Tool) -> object:
    return {"type": "object", "properties": {}} if tool.parameters in (None, {}) else tool.parameters


def tool_answers(process: AgentProcess | None, given: Sequence[Message]) -> Sequence[Answer]:
    """What came of the calls that a process waits for. A person who speaks instead leaves them out."""
    results = {each.tool_call_id: each for each in given if isinstance(each, ToolMessage)}
    speaks = bool(given) and isinstance(given[-1], UserMessage)
    calls = [each for each in (process.open_questions if process else ()) if isinstance(each.wait, FrontEndCall)]
    return [
        Answer(each, _text(results[each.id])) if each.id in results else Answer(each, declined=_LEFT_OUT)
        for each in calls
        if each.id in results or speaks
    ]


def _text(result: ToolMessage) -> str:
    if result.error:
        return f"It failed: {result.error}"
    content = result.content
    return content if isinstance(content, str) else json.dumps([each.model_dump(mode="json") for each in content])


def call_events(question: Question, call: FrontEndCall) -> Iterator[BaseEvent]:
    """The events of a call that the front end is to make."""
    yield ToolCallStartEvent(tool_call_id=question.id, tool_call_name=call.tool)
    yield ToolCallArgsEvent(tool_call_id=question.id, delta=call.arguments)
    yield ToolCallEndEvent(tool_call_id=question.id)


def call_message(question: Question, call: FrontEndCall) -> Message:
    """The message that the front end makes of those events."""
    function = FunctionCall(name=call.tool, arguments=call.arguments)
    return AssistantMessage(id=question.id, tool_calls=[ToolCall(id=question.id, function=function)])
