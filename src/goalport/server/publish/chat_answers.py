"""The answers to calls that talk to a chatbot: its reply, or why there is none.

`answers` writes the handle of a turn that goes on or waits for a person; `doors.mcp.chat_calls` knows what was said.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from goalport.runtime.chat import Conversation, ConversationMessage
from goalport.runtime.process import AgentProcess
from goalport.server.publish.answers import error_result
from goalport.server.publish.chat_reply import ChatReply
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.handle import LargeResult
from goalport.server.publish.output import Pages, WrittenResult, beginning_of, text_block

_BESIDE: Final = 2_000
"""Bytes that an answer needs beside the reply and the assets: the notes, the names of fields, `_meta`."""


def reply_pages(reply: ChatReply, limit: int) -> Pages:
    """A reply in pages, each at most `limit` bytes in JSON."""
    return Pages.of_text("text/markdown", reply.reply, limit)


def answer_with_reply(
    policy: CallPolicy,
    process: AgentProcess,
    conversation: Conversation,
    said: Sequence[ConversationMessage],
    failure: str,
    *,
    max_bytes: int,
) -> WrittenResult:
    """The answer to a call whose turn is over; `failure`: why there is no reply, or only a part of one."""
    reply, spent = ChatReply.of(conversation, said), process.turn_usage
    cost = {"usd": spent.cost, "inputTokens": spent.input_tokens, "outputTokens": spent.output_tokens}
    meta = {
        "goalport/processId": process.id,
        "goalport/conversationId": conversation.id,
        "goalport/cost": cost,
        "goalport/actions": process.turn_actions,
    }
    if failure:
        told = _next_message(policy, reply)
        begun = beginning_of(reply.reply, max_bytes // 2)
        words = "\n\n".join(filter(None, (begun, f"{policy.name} could not reply in full. {failure}", told)))
        return replace(error_result(words), meta=meta)
    result = _written(policy, process, reply)
    if result.size > max_bytes:
        result = _written(policy, process, _cut(reply, max_bytes))
    return replace(result, meta=meta)


def _written(policy: CallPolicy, process: AgentProcess, reply: ChatReply) -> WrittenResult:
    blocks = [text_block(reply.reply or "(The chatbot has said nothing.)")]
    if reply.pages > 1:
        call = LargeResult(process.id, "", reply.pages).page_call(1)
        blocks.append(text_block(f"This reply is cut. To read it in {reply.pages} pages, {call}"))
    blocks.append(text_block(_next_message(policy, reply)))
    return WrittenResult.of(blocks, reply.model_dump(mode="json", by_alias=True))


def _cut(reply: ChatReply, max_bytes: int) -> ChatReply:
    """The beginning of a reply that is too large for one answer, which has it twice: as text and as structure."""
    assets = tuple(each.model_copy(update={"text": ""}) for each in reply.assets)
    taken = len(json.dumps([each.model_dump() for each in assets]))
    pages = len(reply_pages(reply, max_bytes).pages)
    begun = beginning_of(reply.reply, (max_bytes - taken - _BESIDE) // 2)
    return reply.model_copy(update={"reply": begun, "assets": assets, "pages": pages})


def _next_message(policy: CallPolicy, reply: ChatReply) -> str:
    """How the conversation goes on, for models that read texts alone."""
    if reply.finished:
        return f"This conversation is over. To begin another, call {policy.name} without a conversationId."
    return f"To go on with this conversation, call {policy.name} with conversationId {reply.conversation_id}."
