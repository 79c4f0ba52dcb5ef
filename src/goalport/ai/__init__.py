"""What an action calls to use a model: prompts to typed objects, the model-and-tools loop, guards, streaming.

Below: `llm` asks one model once, `tools` are what models call. Above: `process` gives each action an `Ai` of its own.
"""

from goalport.ai.agentic import AgenticTool
from goalport.ai.ai import Ai
from goalport.ai.around import Around, around, within
from goalport.ai.conditions import Determination
from goalport.ai.creating import Creation
from goalport.ai.engine import Engine, Operation, Outside, Record, Request, StreamedObject, Unrecorded
from goalport.ai.guarding import MaxLength, PatternGuard
from goalport.ai.guards import Guard, Objection, Severity
from goalport.ai.interaction import Interaction
from goalport.ai.llm_engine import LlmEngine
from goalport.ai.operations import LlmOperations
from goalport.ai.streaming import Streaming
from goalport.ai.unfolding import UnfoldingTool
from goalport.ai.validating import Services, service_of

__all__ = [
    "AgenticTool",
    "Ai",
    "Around",
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
    "Outside",
    "PatternGuard",
    "Record",
    "Request",
    "Services",
    "Severity",
    "StreamedObject",
    "Streaming",
    "UnfoldingTool",
    "Unrecorded",
    "around",
    "service_of",
    "within",
]
