"""A conversation as Markdown, for people to read and keep.

It is made of the JSON data of an export, so that it is the same wherever the conversation is. Above: `chat` and
`conversations`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Exported = Mapping[str, Any]
_HIDDEN: Final = frozenset({"summary", "tool"})
"""Roles of messages that nobody said."""


def branch_of(exported: Exported) -> Sequence[Mapping[str, Any]]:
    """The messages of the branch that is shown, the oldest first."""
    by_id = {each["id"]: each for each in exported["messages"]}
    branch: list[Mapping[str, Any]] = []
    place: str = exported["head"]
    while place:
        branch.append(by_id[place])
        place = by_id[place]["parent"]
    return branch[::-1]


def transcript(exported: Exported) -> str:
    """What was said in the branch that is shown, as Markdown."""
    title = exported["title"] or f"Conversation {exported['id']}"
    about = f"With {exported['chatbot']}, begun {exported['created_at']}, id {exported['id']}."
    return "\n\n".join([f"# {title}", about, *_messages(exported)]) + "\n"


def _messages(exported: Exported) -> Iterator[str]:
    for each in branch_of(exported):
        if each["role"] in _HIDDEN or not (each["content"] or each.get("images") or each["assets"]):
            continue
        yield f"**{_speaker(each, exported['chatbot'])}**, {each['at']}:"
        yield from filter(None, [each["content"], *_attachments(each)])


def _speaker(message: Mapping[str, Any], chatbot: str) -> str:
    roles = {"user": "You", "assistant": chatbot, "system": "Instructions"}
    return str(message["name"] or roles.get(message["role"], message["role"]))


def _attachments(message: Mapping[str, Any]) -> Iterator[str]:
    for image in message.get("images", ()):
        yield f"*An image ({image['media_type']})*"
    for asset in message["assets"]:
        yield f"[{asset['name']}]({asset['uri']})" if asset["uri"] else f"*{asset['name']}*"
