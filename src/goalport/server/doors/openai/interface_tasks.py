"""What chat interfaces ask on their own account: Open WebUI wants titles, tags, and suggestions of what to say next.

It sends these to the model of the chat, each as one message that begins with `### Task:` and says in which form the
answer has to be. They are no part of a conversation. A cheap model answers them; without any, the answer is an empty
one of that form, and the interface does without. Above: the handlers.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final

from goalport.base.errors import ModelError
from goalport.models.llm import Message, UserMessage
from goalport.runtime.chat import cheapest
from goalport.runtime.platform import AgentPlatform

_log = logging.getLogger(__name__)
_TASK: Final = "### Task:"
_FORM: Final = re.compile(
    r'### \W{0,9}Output\b[^\n]{0,200}\n[^\n{#]{0,100}JSON[^{#]{0,100}\{\s{0,20}"(?P<name>\w{1,20})"'
)
"""The section that says the form: `JSON format: { "title": "…" }`. It is short, so that a search in a long text is."""
_EMPTY: Final[Mapping[str, str]] = {
    "title": '{"title": ""}',
    "tags": '{"tags": []}',
    "follow_ups": '{"follow_ups": []}',
    "queries": '{"queries": []}',
    "prompt": '{"prompt": ""}',
    "text": '{"text": ""}',
}


def is_task(messages: Sequence[Message]) -> bool:
    """Whether this is such a request, and not something that a person said."""
    return len(messages) == 1 and _form(messages[0]) in _EMPTY


async def answer_to_task(messages: Sequence[Message], platform: AgentPlatform) -> str:
    """The answer of a cheap model; an empty one of the form that is asked for if there is no model, or it fails."""
    (asked,) = messages
    try:
        return await cheapest(platform.ai, platform.models.roles).generate_text(asked.content)
    except ModelError as error:
        _log.info("A task of a chat interface is answered without a model: %s", error)
        return _EMPTY[_form(asked)]


def _form(message: Message) -> str:
    if not isinstance(message, UserMessage) or not message.content.startswith(_TASK):
        return ""
    found = _FORM.search(message.content)
    return found["name"] if found else ""
