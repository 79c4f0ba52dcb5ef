"""For whom a request is made, and which conversation it names.

An interface such as Open WebUI has many users and one key. If that key has the scope to act for others, the headers by
which the interface names the user and the chat count. From any other key they say nothing. Above: the handlers.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import unquote

from starlette.requests import Request

from goalport.base.caller import EVERY_SCOPE, Caller
from goalport.server.auth import Grant, current_caller
from goalport.server.auth.current import granted
from goalport.server.auth.verifiers import caller_of
from goalport.workspace.settings import AuthSettings

CONVERSATION: Final = "x-conversation-id"
"""The header that names the conversation, in a request and in its response."""
_CHAT: Final = "x-openwebui-chat-id"
_USER: Final = "x-openwebui-user-id"
_ABOUT: Final[Mapping[str, str]] = {
    "name": "x-openwebui-user-name",
    "email": "x-openwebui-user-email",
    "role": "x-openwebui-user-role",
}
"""What else the interface says of a user, by the names of claims."""


def for_user(request: Request, settings: AuthSettings) -> AbstractContextManager[None]:
    """A context in which the caller is the user whom the headers of a request name, if its key may act for others.

    The user has the scopes of the key, except for those to act for others and to administrate, and for what implies
    these. The issuer is the key: two keys with the same user stand for two callers.
    """
    key, user = current_caller(), request.headers.get(_USER, "")
    if not user or not may_act_for_others(key, settings):
        return nullcontext()
    withheld = {settings.on_behalf_scope, settings.admin_scope, EVERY_SCOPE}
    scopes = {each for each in key.scopes if withheld.isdisjoint(settings.expanded([each]))}
    about = {name: unquote(request.headers[header]) for name, header in _ABOUT.items() if header in request.headers}
    caller = caller_of(settings, user, f"{key.issuer}:{key.id}", scopes, about)
    return granted(request.scope, Grant(caller, key.id), "")


def may_act_for_others(key: Caller, settings: AuthSettings) -> bool:
    """Whether the users whom a key names are to be believed."""
    return key.has(settings.on_behalf_scope)


def named_conversation(request: Request, settings: AuthSettings, key: Caller) -> str:
    """The id of the conversation that the headers of a request name; empty if they name none."""
    chat = request.headers.get(_CHAT, "") if may_act_for_others(key, settings) else ""
    return chat or request.headers.get(CONVERSATION, "")


_BEGINNING: Final = "resp_"
_BETWEEN: Final = "."


@dataclass(frozen=True, slots=True)
class ResponseId:
    """Where a response stands: the conversation, and the message of it that was answered."""

    conversation: str
    """Its id; or that of a process, for the result of a goal."""
    said: str = ""
    """The id of the message; for a goal, how many questions were settled before."""

    def __str__(self) -> str:
        return f"{_BEGINNING}{self.conversation}{_BETWEEN}{self.said}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """The id that is written so; None for another text."""
        conversation, between, said = text.removeprefix(_BEGINNING).rpartition(_BETWEEN)
        return cls(conversation, said) if text.startswith(_BEGINNING) and between else None
