"""What must not be shown, and taking it out of texts: answers, events, spans, log lines and tracebacks pass here.

Secrets are kept for whoever knows them (a platform, its upstream servers) as long as that lives, and are hidden from
everything that this process says: a log and its spans are the process's, not one server's. Floor 0.
"""

import json
import logging
import os
import re
import traceback
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote, urlsplit

__all__ = ["hide", "hide_known", "keep", "passwords_in", "secrets_in_environment", "traceback_of"]

_SHORTEST: Final = 5
"""Shorter values are not looked for: taking out each `1` and `true` would leave nothing to read."""
_SHORTEST_OF_ENVIRONMENT: Final = 8
"""Of a variable nobody told us more than its name; a short value may be a word that means nothing secret."""
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
    (re.compile(r"\b(?:sk|pk|rk|gh[opsur]|github_pat|glpat|xox[abprs])[-_][\w-]{12,}|\b(?:AKIA|AIza)\w{12,}"), "***"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), "***"),
)
"""Secrets that nobody told us of, as programs print them: after a name, in an address, or with the known beginnings."""
_kept: dict[int, frozenset[str]] = {}
"""The secrets by the identity of who keeps them."""
_known: tuple[str, ...] = ()
"""All of them. The longest first: one that is a part of another would leave the other's rest."""


def keep(owner: object, secrets: Iterable[str]) -> None:
    """Hide these secrets from now on, in place of those that the owner kept before, until the owner is gone."""
    if id(owner) not in _kept:
        weakref.finalize(owner, _forget, id(owner)).atexit = False
    _kept[id(owner)] = frozenset(form for each in secrets for form in _forms(each) if len(form) >= _SHORTEST)
    _gather()
    if logging.getLogRecordFactory() is not _record:
        _Records.before = logging.getLogRecordFactory()
        logging.setLogRecordFactory(_record)


def hide(text: str) -> str:
    """The text without known secrets, and without what looks like one: for what programs and people say of failures."""
    text = hide_known(text)
    for pattern, instead in _LOOKS_SECRET:
        text = pattern.sub(instead, text)
    return text


def hide_known(text: str) -> str:
    """The text without known secrets: for what is a result, and may well look like one."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, "***")
    return text


def traceback_of(error: BaseException) -> str:
    """The traceback of an exception with its causes, without secrets."""
    return hide("".join(traceback.format_exception(error)))


def secrets_in_environment(environment: Mapping[str, str]) -> Iterator[str]:
    """The values of variables that are called like secrets, and the passwords in addresses."""
    for name, value in environment.items():
        if len(value) < _SHORTEST_OF_ENVIRONMENT:
            continue
        if _NAMED.search(name) and not os.path.exists(value):  # noqa: PTH110 - a value may be no path at all
            yield value
        elif "://" in value:
            yield from passwords_in(value)


def passwords_in(address: str) -> Iterator[str]:
    """The password in an address, as it stands there and as it is meant; nothing of any other text."""
    with suppress(ValueError):
        if password := urlsplit(address).password:
            yield from {password, unquote(password)}


def _forms(secret: str) -> Iterator[str]:
    """How a secret may be seen: without the space around it, as programs quote it, and line by line."""
    trimmed = secret.strip()
    yield from (
        trimmed,
        repr(trimmed)[1:-1],
        json.dumps(trimmed)[1:-1],
        *(each.strip() for each in trimmed.split("\n")),
    )


def _forget(owner: int) -> None:
    _kept.pop(owner, None)
    _gather()


def _gather() -> None:
    global _known  # noqa: PLW0603 - what is hidden is one for the whole process, as its log is
    _known = tuple(sorted({each for some in _kept.values() for each in some}, key=len, reverse=True))


class _Records:
    """How log records are made, but for the secrets in them."""

    before: Any = logging.LogRecord


def _record(*args: Any, **options: Any) -> logging.LogRecord:
    record: logging.LogRecord = _Records.before(*args, **options)
    if _known:
        hiding = hide if record.name.startswith("goalport") else hide_known
        # What cannot be put together is complained of by whoever writes it.
        try:
            shown = record.getMessage()
        except (TypeError, ValueError, KeyError):
            return record
        if (hidden := hiding(shown)) != shown:
            record.msg, record.args = hidden, ()
        if record.exc_info and record.exc_info[1] is not None:
            # Formatted here: an exception's own text is out of reach later.
            record.exc_text = hiding(_FORMATTER.formatException(record.exc_info))
    return record


_FORMATTER: Final = logging.Formatter()
