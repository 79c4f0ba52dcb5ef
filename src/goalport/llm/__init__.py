"""Models behind one seam: which there are, how to choose one, and how to ask it.

The one room that imports pydantic-ai's model layer, and only when a model is first used. Above it, `ai` asks; below it
are only errors and the texts of `prompts`.
"""

from goalport.llm.catalogue import Models
from goalport.llm.embedding import EmbeddingService, Vectors, check_number
from goalport.llm.images import Image
from goalport.llm.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolReply, UserMessage
from goalport.llm.model import (
    FinishReason,
    LanguageModel,
    ModelCall,
    ModelCard,
    ModelReply,
    OutputSpec,
    Prices,
    Retry,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolSpec,
)
from goalport.llm.options import LlmOptions, Thinking
from goalport.llm.settings import CustomModel, ModelsSettings, ProviderSettings

__all__ = [
    "AssistantMessage",
    "CustomModel",
    "EmbeddingService",
    "FinishReason",
    "Image",
    "LanguageModel",
    "LlmOptions",
    "Message",
    "ModelCall",
    "ModelCard",
    "ModelReply",
    "Models",
    "ModelsSettings",
    "OutputSpec",
    "Prices",
    "ProviderSettings",
    "Retry",
    "SystemMessage",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "TokenUsage",
    "ToolCall",
    "ToolReply",
    "ToolSpec",
    "UserMessage",
    "Vectors",
    "check_number",
]
