"""Handles: what another goalport answers in place of a result that takes longer, or that needs a person.

They are known by what the wire says: a process in the result's `_meta`, and the same process with its next call in the
structured content. Here they are read, and put into the names under which a group has the server's tools; `calling`
follows them where there is somebody to ask.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["Handle", "handle_of", "in_names_of"]

_PROCESS: Final = "goalport/processId"
_CANCEL: Final = "process_cancel"
_NAME: Final = r"[A-Za-z0-9_.-]+"
_CALL: Final = rf"(?<=\bcall ){_NAME}(?= with \{{)"
"""A call that a text advises to make."""
_REPEATED: Final = rf"(?<=\bcall )(?!it\b){_NAME}(?= again)"
"""A call that a text advises against."""
_COMPANION: Final = r"(?<![\w.-])(?:process_status|process_cancel|submitFormAndResumeProcess|read_result|_confirm)\b"
_IN_RESULTS: Final = re.compile(_CALL)
_IN_ERRORS: Final = re.compile(f"{_CALL}|{_COMPANION}")
_IN_ADVICE: Final = re.compile(f"{_CALL}|{_REPEATED}")
_RESOURCES: Final = re.compile(r" A client that reads resources [^\n]*")
"""Where a large result is read as resources, which are the other server's, and not published with its tools."""
_ANSWERS: Final = {"form": "formData", "confirmation": "confirmed"}
"""The argument that an answer goes into, by the kind of its question."""


@dataclass(frozen=True, slots=True)
class Handle:
    """A process of another goalport that has no result yet."""

    process_id: str
    tool: str
    """The tool of the same server that is to be called next."""
    arguments: Mapping[str, Any]
    question: Mapping[str, Any] | None
    """What a person is asked first; None: the process runs, and the next call waits for it."""

    @property
    def message(self) -> str:
        return str(self.question.get("message", "")) if self.question else ""

    @property
    def form(self) -> Mapping[str, object]:
        """The JSON Schema of the answer, an object: a yes or no is its member `confirmed`."""
        if self._kind == "confirmation":
            return {"type": "object", "properties": {"confirmed": {"type": "boolean"}}, "required": ["confirmed"]}
        return cast("Mapping[str, object]", self.question["schema"]) if self.question else {}

    def answered(self, answer: Mapping[str, object] | None) -> tuple[str, dict[str, Any]]:
        """The call that passes on what a person said; None: they declined."""
        if self._kind == "confirmation":
            return self.tool, {**self.arguments, "confirmed": bool(answer and answer.get("confirmed"))}
        if answer is None:
            return _CANCEL, {"processId": self.process_id}
        return self.tool, {**self.arguments, _ANSWERS["form"]: dict(answer)}

    @property
    def _kind(self) -> object:
        return self.question.get("kind") if self.question else None


def handle_of(result: "CallToolResult") -> Handle | None:
    """The handle that a result is; None: it is something else."""
    content = _content_of(result)
    if content is None or content.get("status") not in {"running", "waiting"}:
        return None
    following, questions = content["next"], content.get("questions")
    first: Any = cast("Sequence[Any]", questions)[0] if isinstance(questions, list) and questions else None
    arguments = following.get("arguments")
    if not isinstance(arguments, dict) or not isinstance(first, dict | None):
        return None
    if first is not None and not _is_question(cast("dict[str, Any]", first)):
        return None
    return Handle(
        content["processId"],
        following["tool"],
        cast("dict[str, Any]", arguments),
        cast("dict[str, Any] | None", first),
    )


def _is_question(value: Mapping[str, Any]) -> bool:
    return value.get("kind") in _ANSWERS and isinstance(value.get("schema"), dict)


def in_names_of(result: "CallToolResult", rename: Callable[[str], str]) -> "CallToolResult":
    """A result of another goalport whose advice names its tools as `rename` does; any other as it is."""
    if _PROCESS not in (result.meta or {}):
        return result
    content = _content_of(result)
    names = _IN_ADVICE if content is not None else _IN_ERRORS if result.is_error else _IN_RESULTS

    def told(text: str) -> str:
        return names.sub(lambda found: rename(found[0]), text if content is None else _RESOURCES.sub("", text))

    blocks = [
        each.model_copy(update={"text": told(each.text)}) if each.type == "text" else each
        for each in result.content
        if content is None or each.type != "resource_link"
    ]
    if content is None:
        return result.model_copy(update={"content": blocks})
    following = {**content["next"], "tool": rename(content["next"]["tool"])}
    if isinstance(said := following.get("instruction"), str):
        following["instruction"] = told(said)
    return result.model_copy(update={"content": blocks, "structured_content": {**content, "next": following}})


def _content_of(result: "CallToolResult") -> dict[str, Any] | None:
    """The structured content, where it is about the process that answered and says what to call next."""
    content: Any = result.structured_content
    process: object = (result.meta or {}).get(_PROCESS)
    if not isinstance(process, str) or not isinstance(content, dict):
        return None
    told = cast("dict[str, Any]", content)
    following = told.get("next")
    is_next = isinstance(following, dict) and isinstance(cast("dict[str, Any]", following).get("tool"), str)
    return told if told.get("processId") == process and is_next else None
