"""What an action calls to ask a model: prompts to typed objects, the tool loop, guards and streams.

Below: `llm` asks one model once, `tools` are what models call. Above: `process` gives each action an `Ai` of its own.
"""

from goalport.models.llm import LlmOperations
from goalport.runtime.ai.agentic_tool import (
    AgenticTool,
    PlaybookTool,
    StateMachineTool,
    Unlock,
    after,
    after_artifact,
    after_calls,
)
from goalport.runtime.ai.ai import Ai, Creation, Determination, Streaming, to_be_awaited
from goalport.runtime.ai.engine import (
    TOOL_CONTEXT,
    Engine,
    NoOperation,
    Operation,
    ReplyRecord,
    SentPrompts,
    StreamedObject,
    ToolContext,
    Unrecorded,
    tool_context,
    use_tool_context,
)
from goalport.runtime.ai.guards import Guard, MaxLength, Objection, PatternGuard, Severity
from goalport.runtime.ai.interaction import Interaction, Request, ToolUse
from goalport.runtime.ai.llm_engine import LlmEngine
from goalport.runtime.ai.output_type import Services, service_of
from goalport.runtime.ai.toolbox import UnfoldingTool

__all__ = [
    "TOOL_CONTEXT",
    "AgenticTool",
    "Ai",
    "Creation",
    "Determination",
    "Engine",
    "Guard",
    "Interaction",
    "LlmEngine",
    "LlmOperations",
    "MaxLength",
    "NoOperation",
    "Objection",
    "Operation",
    "PatternGuard",
    "PlaybookTool",
    "ReplyRecord",
    "Request",
    "SentPrompts",
    "Services",
    "Severity",
    "StateMachineTool",
    "StreamedObject",
    "Streaming",
    "ToolContext",
    "ToolUse",
    "UnfoldingTool",
    "Unlock",
    "Unrecorded",
    "after",
    "after_artifact",
    "after_calls",
    "service_of",
    "to_be_awaited",
    "tool_context",
    "use_tool_context",
]
