"""Variables in the texts of a configuration: `${VAR}`, `${VAR:-default}`, `${env:VAR}`, filled from the environment.

Beside those, the places that editors know are filled: `${workspaceFolder}`, `${userHome}` and their like. What cannot
be filled is told by name. Pure but for the home folder; reads no environment by itself.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["Unfilled", "Variables"]

_VARIABLE = re.compile(r"\$\{(?P<inside>[^{}]*)\}")
_NAMED = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)(?::-(?P<default>.*))?", re.DOTALL)
_SHORTEST_SECRET: Final = 4
"""What is shorter guards nothing, and hiding it would make nonsense of messages."""
_PUBLIC: Final = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TEMP", "TMP", "TMPDIR", "USER"})


class Unfilled(ValueError):
    """A variable that has no value, in a sentence that never shows one."""


@dataclass(frozen=True)
class Variables:
    """Where values come from."""

    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    """What editors call the workspace folder."""

    def fill(self, text: str) -> tuple[str, tuple[str, ...]]:
        """A text with its variables filled, and the values that may be secret. Raises `Unfilled`.

        `${VAR:-default}` takes the default when the variable is unset or empty, as shells do. Values are not looked
        through again: what looks like a variable in one stays as it is.
        """
        secrets: list[str] = []

        def value(found: re.Match[str]) -> str:
            filled, is_secret = self._value(found["inside"])
            if is_secret and len(filled) >= _SHORTEST_SECRET:
                secrets.append(filled)
            return filled

        filled = _VARIABLE.sub(value, text)
        if "${" in _VARIABLE.sub("", text):
            raise Unfilled("a `${` is never closed, or stands inside of another. Write one variable after the other.")
        return filled, tuple(secrets)

    def _value(self, inside: str) -> tuple[str, bool]:
        """The value, and whether it may be secret."""
        if inside in (places := self._places()):
            return places[inside], False
        if inside.startswith("input:"):
            raise Unfilled(
                f"${{{inside}}} is asked for by an editor; a server has nobody to ask. Put the value into an "
                f"environment variable and write ${{{_upper(inside.removeprefix('input:'))}}}."
            )
        named = _NAMED.fullmatch(inside)
        if named is None:
            raise Unfilled(f"${{{inside}}} is no variable that can be filled. Write ${{NAME}} or ${{NAME:-default}}.")
        name, default = named["name"], named["default"]
        if default is not None and not self.environment.get(name):
            return default, False
        if name not in self.environment:
            raise Unfilled(f"the variable {name} is not set. Set it, or write ${{{name}:-default}}.")
        return self.environment[name], name not in _PUBLIC

    def _places(self) -> dict[str, str]:
        return {
            "workspaceFolder": str(self.folder),
            "workspaceFolderBasename": self.folder.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
        }


def _upper(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).upper()
