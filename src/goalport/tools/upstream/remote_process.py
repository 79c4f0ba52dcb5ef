"""Processes of another goalport, which runs as an upstream server: what it answers while there is no result yet.

Such an answer names the process and the tool to call next. Here it is read, a person's answer becomes the arguments of
the next call, and the names of tools in its advice become the names that our callers know. `upstream_server`, above,
makes the calls.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from mcp_types import CallToolResult

PREFERS_HANDLE: Final = "goalport/handle"
"""The key of a call's `_meta` by which a client says that it follows handles by itself, and is not to be asked else.

A handle survives both servers; a question in the middle of a call does not.
"""
_PROCESS: Final = "goalport/processId"
_CANCEL: Final = "process_cancel"
_NAME: Final = r"[A-Za-z0-9_.-]+"
_CALL: Final = rf"(?<=\bcall ){_NAME}(?= with \{{)"
"""A call that a text advises to make."""
_REPEATED: Final = rf"(?<=\bcall )(?!it\b){_NAME}(?= again)"
"""A call that a text advises against."""
_IN_RESULTS: Final = re.compile(_CALL)
_IN_ADVICE: Final = re.compile(f"{_CALL}|{_REPEATED}")
_RESOURCES: Final = re.compile(r" A client that reads resources [^\n]*")
"""Advice to read a large result as a resource: resources are the other server's, and not published with its tools."""
_ABOUT: Final = frozenset({"processId", "questionId"})
"""The arguments of a call that answers a question which say what is answered; the one that is left is the answer."""


@dataclass(frozen=True, slots=True)
class RemoteProcess:
    """A process that runs, or waits for a person, on another goalport.

    A result stands for one when its `_meta` has a process, and its structured content the same process and the next
    call.
    """

    process_id: str
    tool: str
    """The tool of the same server that is to be called next."""
    arguments: Mapping[str, Any]
    question: Mapping[str, Any] | None
    """What a person is asked first; None: the process runs, and the next call waits for it."""

    @property
    def message(self) -> str:
        """What the person reads, with the address that they open, if there is one."""
        asked = self.question or {}
        return "\n".join(str(asked[each]) for each in ("message", "url") if asked.get(each))

    @property
    def form(self) -> Mapping[str, object]:
        """The JSON Schema of an object: of the answer, or of one whose only member is the answer, as a yes or no is."""
        if self._is_object:
            return self._schema
        return {"type": "object", "properties": {self._argument: self._schema}, "required": [self._argument]}

    def answered(self, answer: Mapping[str, object] | None) -> tuple[str, dict[str, Any]]:
        """The call (tool and arguments) that passes on the answer of a person; None: they declined."""
        if self._schema.get("type") == "boolean":
            return self._call_with(bool(answer and answer.get(self._argument)))
        if answer is None:
            return _CANCEL, {"processId": self.process_id}
        return self._call_with(dict(answer) if self._is_object else answer.get(self._argument))

    def _call_with(self, answer: object) -> tuple[str, dict[str, Any]]:
        return self.tool, {**self.arguments, self._argument: answer}

    @property
    def _schema(self) -> Mapping[str, object]:
        return cast("Mapping[str, object]", self.question["schema"]) if self.question else {}

    @property
    def _is_object(self) -> bool:
        return self._schema.get("type") == "object"

    @property
    def _argument(self) -> str:
        """The name of the argument that holds the answer."""
        return next(each for each in self.arguments if each not in _ABOUT)


def remote_process(result: "CallToolResult") -> RemoteProcess | None:
    """The process that a result stands for; None: it is another result."""
    content = _content_of(result)
    if content is None or content.get("status") not in {"running", "waiting"}:
        return None
    following, questions = content["next"], content.get("questions")
    first: Any = cast("Sequence[Any]", questions)[0] if isinstance(questions, list) and questions else None
    arguments = following.get("arguments")
    if not isinstance(arguments, dict) or not isinstance(first, dict | None):
        return None
    question = cast("dict[str, Any] | None", first)
    call = cast("dict[str, Any]", arguments)
    # Questions of every kind are answered by their schema, in the one argument of the next call that is left for it.
    if question is not None and not (isinstance(question.get("schema"), dict) and len(call.keys() - _ABOUT) == 1):
        return None
    return RemoteProcess(content["processId"], following["tool"], call, question)


def _names_in_errors(names: Sequence[str]) -> re.Pattern[str]:
    """The names of tools in an error. One of small letters alone may be a word of the sentence."""
    compound = "|".join(re.escape(each) for each in names if not (each.isalpha() and each.islower()))
    return re.compile(rf"{_CALL}|(?<![\w.-])(?:{compound})(?![\w-])" if compound else _CALL)


def with_renamed_tools(
    result: "CallToolResult", rename: Callable[[str], str], names: Sequence[str]
) -> "CallToolResult":
    """A result of another goalport with the names in its advice changed by `rename`; any other result unchanged.

    `names` are those of the server's tools, which its errors may speak of.
    """
    if _PROCESS not in (result.meta or {}):
        return result
    content = _content_of(result)
    named = _IN_ADVICE if content is not None else _names_in_errors(names) if result.is_error else _IN_RESULTS

    def renamed(text: str) -> str:
        return named.sub(lambda found: rename(found[0]), text if content is None else _RESOURCES.sub("", text))

    blocks = [
        each.model_copy(update={"text": renamed(each.text)}) if each.type == "text" else each
        for each in result.content
        if content is None or each.type != "resource_link"
    ]
    if content is None:
        return result.model_copy(update={"content": blocks})
    following = {**content["next"], "tool": rename(content["next"]["tool"])}
    if isinstance(instruction := following.get("instruction"), str):
        following["instruction"] = renamed(instruction)
    return result.model_copy(update={"content": blocks, "structured_content": {**content, "next": following}})


def _content_of(result: "CallToolResult") -> dict[str, Any] | None:
    """The structured content, where it is about the process that answered and holds the next call; else None."""
    content: Any = result.structured_content
    process: object = (result.meta or {}).get(_PROCESS)
    if not isinstance(process, str) or not isinstance(content, dict):
        return None
    members = cast("dict[str, Any]", content)
    following = members.get("next")
    is_next = isinstance(following, dict) and isinstance(cast("dict[str, Any]", following).get("tool"), str)
    return members if members.get("processId") == process and is_next else None
