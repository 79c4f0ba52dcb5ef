"""The answer to a call: the goal's output or why there is none, its cost, and what to do when the output is too large.

`output` serializes the values and `handle` names the next call; this module joins them into one `tools/call` result.
All texts that tell a client the status or the end of a process are here. Nothing is awaited.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, assert_never

from pydantic_core import PydanticSerializationError, from_json, to_json

from goalport.base.errors import ToolError
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, counted, first_line
from goalport.runtime.chat import Conversation, ConversationMessage
from goalport.runtime.process import AgentProcess, Completed, Failed, Killed, Outcome, Stuck, Terminated, Waiting
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.handle import handle_of, large_result_of, page_call
from goalport.server.publish.output import (
    ChatReply,
    OutputFormat,
    Pages,
    Wire,
    WrittenResult,
    ascii_size,
    beginning_of,
    text_block,
)
from goalport.server.publish.resources import cost_of, result_uri
from goalport.tools.schemas import UNREADABLE

T = TypeVar("T")

_RESULT_OVERHEAD_BYTES: Final = 1_000
"""Bytes of a result that are neither content nor structured content, such as `_meta`."""
_TEXT_CUT: Final = "\n\n[This text is cut; the structured content is whole.]"
"""The note that follows a truncated text of a result."""


def error_result(text: str, meta: Mapping[str, Any] | None = None) -> WrittenResult:
    """An error result with a text for the model, cleaned and without known secrets."""
    return WrittenResult.of([text_block(cleaned(hide_known(text)))], is_error=True, meta=meta)


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """Writes the answers to the calls of one server."""

    max_bytes: int
    """The most bytes of an answer on the wire; MCP clients close the connection at 1 MiB."""

    def of(self, policy: CallPolicy, process: AgentProcess, outcome: Outcome | None) -> WrittenResult:
        """The answer to a call of a goal or of a companion tool. An `outcome` of None means the process still runs."""
        if outcome is None or isinstance(outcome, Waiting):
            result = _handle(policy, process)
        elif isinstance(outcome, Completed):
            try:
                result = written_by(policy.output.written, policy.name, outcome.value)
                if result.size > self.max_bytes:
                    call = page_call(process.id, 1)
                    note = f"{_TEXT_CUT[:-1]} To read it in pages, {call}]"
                    result = self._with_text_cut(result, note) or self.link(policy.name, process)
            except ToolError as error:
                result = error_result(str(error))
        else:
            result = error_result(reason_of(outcome, policy.name) or "")
        cost, actions = cost_of(process), len(process.history)
        meta = {"goalport/processId": process.id, "goalport/cost": cost, "goalport/actions": actions}
        return replace(result, meta=meta)

    def fitting(self, result: WrittenResult) -> WrittenResult | None:
        """An exported tool's answer. If too large, a text that repeats the rest is cut; None if that is not enough."""
        return result if len(result.json) <= self.max_bytes else self._with_text_cut(result, _TEXT_CUT)

    def link(self, tool: str, process: AgentProcess) -> WrittenResult:
        """The answer in place of the large result of a process: how to read its pages."""
        found, uri = Pages.of(process, self.max_bytes), result_uri(process.id)
        assert found is not None
        pages = len(found.pages)
        link = {"type": "resource_link", "uri": f"{uri}/1", "name": f"Result of {tool}, first page"}
        words = (
            f"{tool} was done. Its result is too large for one answer: it has {counted(pages, 'page')}. Do not"
            f" call {tool} again. To read the first page, {page_call(process.id, 1)} A client that reads resources"
            f" finds the pages at {uri}/1 and so on, and the whole at {uri} (over SSE, clients refuse what is larger"
            " than 1 MiB)."
        )
        return WrittenResult.of([text_block(words), link], large_result_of(process.id, uri, pages))

    def _with_text_cut(self, result: WrittenResult, below: str) -> WrittenResult | None:
        """The answer with its text cut to fit; None if it has more than that text or is too large even without it.

        The text repeats the structured content. Both go in one message, and clients close the connection when a message
        exceeds 1 MiB.
        """
        room = self.max_bytes - ascii_size(result.structured) - len(below) - _RESULT_OVERHEAD_BYTES
        content: list[Wire] = from_json(b"".join(result.content)) if result.structured and room >= 0 else []
        if [each["type"] for each in content] != ["text"]:
            return None
        shortened = text_block(beginning_of(content[0]["text"], room) + below)
        return replace(result, content=(to_json([shortened]),))


def _handle(policy: CallPolicy, process: AgentProcess) -> WrittenResult:
    """The handle of an unfinished process. If its policy allows none, kill the process and return an error."""
    goal = policy.name
    if not policy.may_give_handle:
        process.kill("It asks a person, and its publication does not say that it may.")
        return error_result(
            f"{goal} has to ask a person, but is not published as a goal that may: an action of it asks in its"
            " middle, or an agent that it started does. It was stopped. Its author mends that with Export(long=True)."
        )
    try:
        words, structured = handle_of(process, goal)
    except UNREADABLE as error:
        reason = first_line(str(error))
        return error_result(f"{goal} asks for something that cannot be read from JSON: {reason}. Cancel it.")
    return WrittenResult.of([text_block(cleaned(hide_known(words)))], structured)


def written_by(write: Callable[[object], T], tool: str, value: object) -> T:
    """Serialize a goal's result by `write`, a method of `OutputFormat`. Raises `ToolError` if that is impossible."""
    try:
        return write(value)
    except PydanticSerializationError as error:
        raise ToolError(f"{tool} was done, but its result cannot be written as its declared type: {error}.") from error
    except ToolError as error:
        raise ToolError(f"{tool} was done, but {error}") from error


def text_of(format_: OutputFormat, tool: str, value: object) -> str:
    """The texts in the result of a goal, for clients that read only text. Raises what `written_by` raises."""
    blocks: Sequence[Mapping[str, Any]] = from_json(b"".join(written_by(format_.written, tool, value).content))
    return "\n\n".join(each["text"] for each in blocks if each["type"] == "text")


def reason_of(outcome: Outcome, goal: str) -> str | None:
    """Why a process has no result and what the caller can do; None for a process that is completed."""
    match outcome:
        case Completed():
            return None
        case Waiting(questions):
            return f"{goal} waits for a person to answer: {' '.join(_sentence(each.message) for each in questions)}"
        case Stuck(reason, input_may_help=False):
            return f"{goal} cannot be reached on this server. {_sentence(reason)} Tell whoever runs it."
        case Stuck(reason):
            return f"{goal} cannot be reached from what was given. {_sentence(reason)} Call it with other input."
        case Failed(reason, caller_mistake=True):
            return reason
        case Failed(reason, not_begun=True):
            return f"{goal} failed. {_sentence(reason)} Nothing was done."
        case Failed(reason):
            return f"{goal} failed. {_sentence(reason)} Calling it again unchanged may fail again."
        case Terminated(reason):
            return f"{goal} was ended before it was done. {_sentence(reason)} Nothing goes on."
        case Killed(reason):
            return f"{goal} was stopped. {_sentence(reason)} Nothing goes on; call it again if it is still wanted."
        case _:
            assert_never(outcome)


def _sentence(text: str) -> str:
    stripped = text.strip()
    return stripped if not stripped or stripped[-1] in ".!?…" else f"{stripped}."


_REPLY_OVERHEAD_BYTES: Final = 2_000
"""Bytes of an answer that are neither reply nor assets: the notes, the names of fields, `_meta`."""


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
    """The answer to a call whose turn is over. `failure`: why the reply is missing or cut short; empty: it is not."""
    reply, spent = ChatReply.of(conversation, said), process.turn_usage
    if failure:
        begun = beginning_of(reply.reply, max_bytes // 2)
        told = (begun, f"{policy.name} could not reply in full. {failure}", _next_message(policy, reply))
        result = error_result("\n\n".join(filter(None, told)))
    elif (result := _written_reply(policy, process, reply)).size > max_bytes:
        # The answer has the reply twice: as text and as structured content.
        assets = tuple(each.model_copy(update={"text": ""}) for each in reply.assets)
        taken = len(json.dumps([each.model_dump() for each in assets]))
        pages = len(reply_pages(reply, max_bytes).pages)
        begun = beginning_of(reply.reply, (max_bytes - taken - _REPLY_OVERHEAD_BYTES) // 2)
        cut = reply.model_copy(update={"reply": begun, "assets": assets, "pages": pages})
        result = _written_reply(policy, process, cut)
    meta = {
        "goalport/processId": process.id,
        "goalport/conversationId": conversation.id,
        "goalport/cost": {"usd": spent.cost, "inputTokens": spent.input_tokens, "outputTokens": spent.output_tokens},
        "goalport/actions": process.turn_actions,
    }
    return replace(result, meta=meta)


def _written_reply(policy: CallPolicy, process: AgentProcess, reply: ChatReply) -> WrittenResult:
    blocks = [text_block(reply.reply or "(The chatbot has said nothing.)")]
    if reply.pages > 1:
        told = f"This reply is cut. To read it in {reply.pages} pages, {page_call(process.id, 1)}"
        blocks.append(text_block(told))
    blocks.append(text_block(_next_message(policy, reply)))
    return WrittenResult.of(blocks, reply.model_dump(mode="json", by_alias=True))


def _next_message(policy: CallPolicy, reply: ChatReply) -> str:
    """How the conversation goes on, for models that read only the text."""
    if reply.finished:
        return f"This conversation is over. To begin another, call {policy.name} without a conversationId."
    return f"To go on with this conversation, call {policy.name} with conversationId {reply.conversation_id}."
