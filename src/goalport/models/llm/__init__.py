"""Language models and embedding models: which there are, how one is chosen, and how it is asked.

This is the one room that imports pydantic-ai's model layer, and only when a model is first asked. Above: `ai` asks
models; below: `errors` and `secrecy`.
"""

from goalport.models.llm.catalogue import TRIAL_MODEL, CustomModel, Models, ModelsSettings
from goalport.models.llm.dialects import ProviderSettings
from goalport.models.llm.messages import (
    AssistantMessage,
    FinishReason,
    Image,
    Message,
    SystemMessage,
    ToolCall,
    ToolReply,
    UserMessage,
    has_images,
)
from goalport.models.llm.model import (
    EmbeddingService,
    LanguageModel,
    LlmOperations,
    LlmOptions,
    ModelCall,
    ModelCard,
    ModelReply,
    OutputSpec,
    Prices,
    Retry,
    TextDelta,
    Thinking,
    ThinkingDelta,
    TokenUsage,
    ToolSpec,
    Vectors,
    check_vector_count,
)

__all__ = [
    "TRIAL_MODEL",
    "AssistantMessage",
    "CustomModel",
    "EmbeddingService",
    "FinishReason",
    "Image",
    "LanguageModel",
    "LlmOperations",
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
    "check_vector_count",
    "has_images",
]
