"""What went wrong with a server, in a line for people and models."""

import errno
import re
from collections.abc import Iterator
from typing import Final

from pydantic import ValidationError

from goalport.upstream.cleaning import cleaned
from goalport.upstream.config import ServerConfig
from goalport.upstream.connection import ConnectionLost
from goalport.upstream.secrecy import place_of

__all__ = ["reason_of", "said_of"]

_LIMIT: Final = 500
_MOST_FAULTS: Final = 3
_FOR_PROGRAMMERS: Final = re.compile(r" \[type=[^\n]*\]$|^\s*For further information visit \S*$", re.MULTILINE)
"""What pydantic adds to its messages, also to those that others pass on."""


def reason_of(config: ServerConfig, error: BaseException, *known: str) -> str:
    """Why a connection could not be made, or ended, for those who run us; `known` is what the target knows of it."""
    leaf = next(_leaves(error))
    words = _words(config, leaf)
    more = [each for each in known if each and each not in words]
    plain = _FOR_PROGRAMMERS.sub("", "; ".join(filter(None, (words, *more))))
    return cleaned(" ".join(plain.split()), _LIMIT)


def _words(config: ServerConfig, error: BaseException) -> str:
    match error:
        case ConnectionLost():
            return str(error)
        case TimeoutError():
            return f"its tools were not listed within {config.connect_timeout:g} s"
        case OSError(errno=errno.ENOENT) if config.cwd is not None and not config.cwd.is_dir():
            return f"there is no folder {str(config.cwd)!r} to start it in"
        case OSError(errno=errno.ENOENT) if config.transport == "stdio":
            return f"there is no command {config.command!r}: install it, or give its full path"
        case OSError(errno=errno.EACCES | errno.ENOEXEC) if config.transport == "stdio":
            return f"the command {config.command!r} is no program, or may not be run"
        case _ if type(error).__name__ in {"ConnectError", "ConnectTimeout"}:
            return f"nothing answers at {place_of(config)}"
        case ValidationError():
            return f"it does not keep to the protocol: {said_of(error)}"
        case _:
            return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def said_of(error: Exception) -> str:
    """What an error says, without what is for programmers; of a message that breaks the protocol, the first faults."""
    if not isinstance(error, ValidationError):
        return str(error)
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in faults[:_MOST_FAULTS]]
    more = len(faults) - len(shown)
    return "; ".join([*shown, f"and {more} more"] if more else shown)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            yield from _leaves(each)  # pyright: ignore[reportUnknownArgumentType]
    else:
        yield error
