"""What models are sent, as text for people: all of it at first, and then what is new.

A conversation is sent again with each request; events that held all of it would grow with the square of its length.
Above: `model_requests` makes events of it; each process has one `SentPrompts`.
"""

import json
from collections import defaultdict

from goalport.base.words import counted
from goalport.models.llm import AssistantMessage, Message, ModelCall, SystemMessage, ToolReply, UserMessage


class SentPrompts:
    """What the requests of a process have sent so far, by interaction."""

    def __init__(self) -> None:
        self._heads: dict[str, dict[str, str]] = {}
        self._conversations: dict[str, set[int]] = defaultdict(set)
        """For each message that was sent, the hash of the conversation up to it."""

    def text(self, interaction: str, call: ModelCall) -> str:
        """Everything that the call sends: system prompt, tools, the schema of the answer, and the conversation.

        Where an earlier call of the interaction sent the same, a line says so. The last message is always there.
        """
        system = [each.content for each in call.messages[:1] if isinstance(each, SystemMessage)]
        messages = [*map(_message, call.messages[len(system) :])]
        head, before = _head(call, "".join(system)), self._heads.get(interaction, {})
        self._heads[interaction] = head
        same = [title for title, text in head.items() if text and text == before.get(title)]
        known = self._known(interaction, messages)
        if known:
            same.append(counted(known, "message"))
        return "\n\n".join(
            [
                *([f"(as before: {', '.join(same)})"] if same else []),
                *(f"{title}:\n{text or '(none)'}" for title, text in head.items() if text != before.get(title, "")),
                *messages[known:],
            ]
        )

    def _known(self, interaction: str, messages: list[str]) -> int:
        """How many messages an earlier conversation began with too, without the last one."""
        seen, so_far, known = self._conversations[interaction], 0, 0
        for message in messages:
            so_far = hash((so_far, message))
            known += so_far in seen
            seen.add(so_far)
        return min(known, max(len(messages) - 1, 0))


def _head(call: ModelCall, system: str) -> dict[str, str]:
    tools = [f"{each.name}: {each.description}\n{json.dumps(each.input_schema)}" for each in call.tools]
    answer = f"{call.output.name}\n{json.dumps(call.output.schema)}" if call.output else ""
    return {"system prompt": system, "tools": "\n".join(tools), "form of the answer": answer}


def _message(message: Message) -> str:
    match message:
        case SystemMessage(content):
            return f"system:\n{content}"
        case UserMessage(content, images):
            return "\n".join([f"user:\n{content}", *(f"(an image, {each.media_type})" for each in images)])
        case AssistantMessage(content, calls):
            return "\n".join([f"assistant:\n{content}", *(f"calls {each.name} {each.arguments}" for each in calls)])
        case ToolReply():
            shown = (f"(an image, {each.media_type})" for each in message.images)
            return "\n".join([f"result of {message.name}:\n{message.content}", *shown])
