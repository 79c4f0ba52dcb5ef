"""Hides secrets in all text that leaves the program: answers, events, spans, log lines and tracebacks.

Secrets are registered under an owner (a platform, its upstream servers) and hidden as long as the owner lives, in all
texts of this program, since servers in one program share its log and its spans.
"""

import json
import logging
import os
import re
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote, unquote_plus, urlsplit

_SHORTEST: Final = 5
"""The fewest characters of a secret that is hidden: hiding each `1` and `true` would make texts unreadable."""
_SHORTEST_OF_ENVIRONMENT: Final = 8
"""The same for environment variables whose names look secret; shorter values may be ordinary words."""
_NAMED: Final = re.compile(
    r"(?i)(?:^|_)(?:\w*API_?KEY|KEYS?|SECRET_KEY\w*|TOKENS?|SECRETS?|\w*PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?"
    r"|AUTHORIZATION|PAT)$|_PASS$|_PWD$|^SSHPASS$"
)
_KEY: Final = r"(?:password|passwd|pwd|secret|token|api[-_ ]?key|access[-_ ]?key|private[-_ ]?key)"
_LOOKS_SECRET: Final = (
    (re.compile(rf"(?i)({_KEY}[\"']?\s*[:=]\s*)([\"'])(?:(?!\2)[^\n]){{{_SHORTEST},}}\2"), r"\1\2***\2"),
    (re.compile(rf"(?i)({_KEY}[\"']?\s*[:=]\s*[\"']?)[^\s\"',;&]{{{_SHORTEST},}}"), r"\1***"),
    (re.compile(r"(?i)\b(Bearer|Basic)(\s+)[\w.~+/=-]{8,}"), r"\1\2***"),
    (re.compile(r"://[^\s/@:\"']*:[^\s/\"']+@"), "://***@"),
    (
        re.compile(r"\b(?:sk|pk|rk|gp|gh[opsur]|github_pat|glpat|xox[abprs])[-_][\w-]{12,}|\b(?:AKIA|AIza)\w{12,}"),
        "***",
    ),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), "***"),
)
"""Patterns of unregistered secrets: after a name like `password`, in a URL, or with a well-known prefix."""
_WITHOUT_TEXTS: Final = frozenset({"goalport.calls"})
"""Loggers whose records hold only names and numbers. They log each call, and matching the patterns takes time."""
_API_KEY: Final = re.compile(r"\bgp_[0-9A-Za-z]{38}\b")
"""An API key of a caller. It cannot be registered, since only its hash is known here."""
_registered: dict[int, frozenset[str]] = {}
"""The registered secrets, by the identity of their owner."""
_known: tuple[str, ...] = ()
"""All registered secrets, the longest first: hiding a part of a secret first would leave its rest visible."""
_known_bytes: tuple[bytes, ...] = ()
"""The same in UTF-8; lone surrogates are encoded too."""


def register_secrets(owner: object, secrets: Iterable[str]) -> None:
    """Hide these secrets from now on, in place of the owner's earlier ones, until the owner is garbage collected."""
    if id(owner) not in _registered:
        weakref.finalize(owner, _forget, id(owner)).atexit = False
    _registered[id(owner)] = frozenset(form for each in secrets for form in _forms(each) if len(form) >= _SHORTEST)
    _collect()
    if logging.getLogRecordFactory() is not _record:
        _Records.before = logging.getLogRecordFactory()
        logging.setLogRecordFactory(_record)


def hide(text: str) -> str:
    """The text without registered secrets and what looks like a secret: for error messages and output of programs."""
    text = hide_known(text)
    for pattern, instead in _LOOKS_SECRET:
        text = pattern.sub(instead, text)
    return text


def hide_known(text: str) -> str:
    """The text without registered secrets only: for results, which may contain values that merely look like secrets."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, "***")
    return text


class SecretHider:
    """Hides registered secrets in a streamed text, whose pieces may end in the middle of a secret.

    The end of a piece that may begin a secret is held back until the next piece shows whether it does.
    """

    def __init__(self) -> None:
        self._held = ""

    def next(self, piece: str) -> str:
        """Add a piece; return the text that can be sent now, which may be empty."""
        text = hide_known(self._held + piece)
        begun = 0  # how many characters at the end are the beginning of a secret
        for secret in _known:
            most = min(len(text), len(secret) - 1)
            begun = max(begun, next((each for each in range(most, 0, -1) if text.endswith(secret[:each])), 0))
        self._held = text[len(text) - begun :]
        return text[: len(text) - begun]

    def end(self) -> str:
        """The rest of the text, after the last piece."""
        rest, self._held = self._held, ""
        return rest


def hide_known_in(written: bytes) -> bytes:
    """`hide_known` for text in UTF-8; it may be long, and is copied only if it contains a secret."""
    for secret in _known_bytes:
        if secret in written:
            written = written.replace(secret, b"***")
    return written


def hide_in(record: logging.LogRecord, hiding: Callable[[str], str] = hide) -> None:
    """Hide secrets in the message and the traceback of a log record, by `hide` or `hide_known`."""
    # A message whose arguments do not fit it is left alone: the handler that formats it reports the error.
    try:
        shown = record.getMessage()
    except (TypeError, ValueError, KeyError):
        return
    if (hidden := hiding(shown)) != shown:
        record.msg, record.args = hidden, ()
    if record.exc_info and record.exc_info[1] is not None:
        written = _FORMATTER.formatException(record.exc_info)
        record.exc_text = hiding(written)
        if record.exc_text != written:
            # The text of the exception itself cannot be changed, and a handler may look at it.
            record.exc_info = None


def traceback_of(error: BaseException) -> str:
    """The traceback of an exception with its causes, without secrets."""
    return hide("".join(traceback.format_exception(error)))


def secrets_in_environment(environment: Mapping[str, str]) -> Iterator[str]:
    """The values of variables whose names look like those of secrets, and the passwords in addresses."""
    for name, value in environment.items():
        if len(value) < _SHORTEST_OF_ENVIRONMENT:
            continue
        if _NAMED.search(name) and not os.path.exists(value):  # noqa: PTH110 - a value may be no path at all
            yield value
        elif "://" in value:
            yield from passwords_in(value)


def passwords_in(address: str) -> Iterator[str]:
    """The passwords in a URL, as they are written and percent-decoded; nothing for any other text."""
    with suppress(ValueError):
        parts = urlsplit(address)
        options = (each.partition("=") for each in parts.query.split("&") if parts.scheme)
        for password in [parts.password, *(value for name, _, value in options if name.endswith("password"))]:
            if password:
                yield from {password, unquote(password), unquote_plus(password)}


def _forms(secret: str) -> Iterator[str]:
    """The forms in which a secret may appear: trimmed, escaped as Python and JSON do, and line by line."""
    trimmed = secret.strip()
    yield from (
        trimmed,
        repr(trimmed)[1:-1],
        *(json.dumps(trimmed, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)),
        *(each.strip() for each in trimmed.split("\n")),
    )


def _forget(owner: int) -> None:
    _registered.pop(owner, None)
    _collect()


def _collect() -> None:
    global _known, _known_bytes  # noqa: PLW0603 - what is hidden is one for the whole process, as its log is
    _known = tuple(sorted({each for some in _registered.values() for each in some}, key=len, reverse=True))
    _known_bytes = tuple(each.encode(errors="surrogatepass") for each in _known)


class _Records:
    """Keeps the factory of log records that was installed before ours."""

    before: Any = logging.LogRecord


def _record(*args: Any, **options: Any) -> logging.LogRecord:
    record: logging.LogRecord = _Records.before(*args, **options)
    name = record.name or ""  # `logging.makeLogRecord` sets the name only afterwards
    of_ours = name.startswith("goalport") and name not in _WITHOUT_TEXTS

    def hide_known_and_keys(text: str) -> str:  # other text in a library's log may be needed
        return _API_KEY.sub("***", hide_known(text)) if "gp_" in text else hide_known(text)

    hide_in(record, hide if of_ours else hide_known_and_keys)
    return record


_FORMATTER: Final = logging.Formatter()
