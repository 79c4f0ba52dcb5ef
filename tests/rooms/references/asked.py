"""References as a model meets them: in the system prompt of an `Ai`, and by its calls of their tools."""

from goalport.knowledge.references import LlmReference, refreshed
from goalport.models.llm import SystemMessage
from goalport.testing import ScriptedModel
from tests.rooms.ai.scripted import ai_with

__all__ = ["call", "offered", "prompt_of"]


async def _asked(*references: LlmReference) -> ScriptedModel:
    model = ScriptedModel(["Thanks"])
    await ai_with(model).with_references(*await refreshed(*references)).generate_text("Go")
    return model


async def prompt_of(*references: LlmReference) -> str:
    """The system prompt that a model gets with these references."""
    first = (await _asked(*references)).calls[-1].messages[0]
    assert isinstance(first, SystemMessage)
    return first.content


async def offered(*references: LlmReference) -> list[str]:
    """The names of the tools that a model is offered with these references."""
    return [each.name for each in (await _asked(*references)).calls[-1].tools]


async def call(reference: LlmReference, tool: str, **arguments: object) -> str:
    """The answer of a tool of a reference, or its error."""
    tools = {each.name: each for each in reference.tools()}
    return (await tools[tool].call(arguments)).text
