"""What an action calls to ask a model: prompts to typed objects, the tool loop, guards and streams.

Below: `llm` asks one model once, `tools` are what models call. Above: `process` gives each action an `Ai` of its own.
"""

from goalport.models.llm import LlmOperations
from goalport.runtime.ai.ai import Ai, Creation, Determination, Streaming, to_be_awaited
from goalport.runtime.ai.engine import (
    TOOL_CONTEXT,
    Engine,
    Interaction,
    Operation,
    ReplyRecord,
    Request,
    SentPrompts,
    StreamedObject,
    ToolContext,
    ToolUse,
    tool_context,
)
from goalport.runtime.ai.guards import Guard, MaxLength, Objection, PatternGuard, Severity
from goalport.runtime.ai.guided_tools import (
    AgenticTool,
    PlaybookTool,
    StateMachineTool,
    UnfoldingTool,
    Unlock,
    after,
    after_artifact,
    after_calls,
)
from goalport.runtime.ai.llm_engine import LlmEngine
from goalport.runtime.ai.output_type import Services, service_of

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
    "after",
    "after_artifact",
    "after_calls",
    "service_of",
    "to_be_awaited",
    "tool_context",
]
