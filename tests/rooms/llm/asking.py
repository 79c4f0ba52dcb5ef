"""What the tests of this room ask of models. No test is in here."""

from goalport.models.llm import (
    LanguageModel,
    Message,
    ModelCall,
    ModelReply,
    OutputSpec,
    TextDelta,
    ThinkingDelta,
    ToolSpec,
    UserMessage,
)

PERSON = OutputSpec(
    name="Person",
    schema={
        "title": "Person",
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    },
)
LOOK_UP = ToolSpec(
    name="look_up",
    description="Look something up.",
    input_schema={"type": "object", "properties": {"subject": {"type": "string"}}, "required": ["subject"]},
)


def call(prompt: str, *more: Message, output: OutputSpec | None = None, tools: tuple[ToolSpec, ...] = ()) -> ModelCall:
    return ModelCall(messages=(UserMessage(prompt), *more), output=output, tools=tools)


async def pieces_of(model: LanguageModel, asked: ModelCall) -> tuple[str, str, ModelReply]:
    """The text and the thoughts that were streamed, and the whole reply at their end."""
    text, thoughts, replies = "", "", list[ModelReply]()
    async for piece in model.stream(asked):
        match piece:
            case TextDelta():
                text += piece.text
            case ThinkingDelta():
                thoughts += piece.text
            case ModelReply():
                replies.append(piece)
    (reply,) = replies
    return text, thoughts, reply
