"""The reply of a chatbot as an MCP client gets it: its text, its assets, and the id of the conversation.

`goal_tools`, `chat_tools` and `chat_answers` are above. What was said comes from the room `chat`.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from goalport.base.secrecy import hide_known
from goalport.runtime.chat import Asset, Conversation, ConversationMessage
from goalport.server.publish.portability import snake_identifier


class ReplyAsset(BaseModel):
    """Something that a reply brings along, such as a document or a link."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    name: str
    uri: str = Field("", description="Where it is; empty: its text is all there is")
    media_type: str = ""
    text: str = ""

    @classmethod
    def of(cls, asset: Asset) -> "ReplyAsset":
        """The asset, without known secrets."""
        name, uri, text = map(hide_known, (asset.name, asset.uri, asset.text))
        return cls(name=name, uri=uri, media_type=asset.media_type, text=text)


class ChatReply(BaseModel):
    """What a chatbot has replied."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    reply: str
    conversation_id: str = Field(description="Give it with the next message to go on with this conversation")
    assets: tuple[ReplyAsset, ...] = Field((), description="What the reply brings along, such as documents and links")
    finished: bool = Field(default=False, description="Whether the conversation is over and takes no more messages")
    pages: int = Field(
        default=1, description="More than 1: the reply is cut here; process_result gives it in so many pages"
    )

    @classmethod
    def of(cls, conversation: Conversation, said: Sequence[ConversationMessage]) -> "ChatReply":
        """Messages that a chatbot has said in a conversation, as one reply without known secrets."""
        assets = dict.fromkeys(asset for each in said for asset in each.assets)
        return cls(
            reply=hide_known("\n\n".join(filter(None, (each.text for each in said)))),
            conversation_id=conversation.id,
            assets=tuple(map(ReplyAsset.of, assets)),
            finished=conversation.finished,
        )


def last_reply(conversation: Conversation) -> Sequence[ConversationMessage]:
    """What the chatbot has said since a person spoke last."""
    entries = conversation.entries
    begin = next((place for place in range(len(entries), 0, -1) if entries[place - 1].role == "user"), 0)
    return [each for each in entries[begin:] if each.role == "assistant"]


def chat_tool_name(chatbot: str) -> str:
    """The name of the tool by which clients talk to the chatbot of that name."""
    return f"chat_{snake_identifier(chatbot)}"
