"""Signs and colours for status lines: ready, needs attention, wrong.

A line is plain text that begins with a status word, or with the name of a model, tool group or server and then the
word; on a terminal the word gets a sign and a colour. In a pipe, or with the variable NO_COLOR, the line stays as it
is. Standard library only. Above: `cli` and `site`, which print for people.
"""

import os
import re
from typing import Final, TextIO

_GREEN, _YELLOW, _RED, _BLUE = "32", "33", "31", "34"
_SIGNS: Final = {_GREEN: "✓", _YELLOW: "▲", _RED: "✗", _BLUE: "•"}
_COLOURS: Final = {
    **dict.fromkeys(("ready", "up"), _GREEN),
    **dict.fromkeys(("warning", "not published", "not ready", "connecting", "degraded", "down", "stopped"), _YELLOW),
    **dict.fromkeys(("problem", "error"), _RED),
    **dict.fromkeys(("note", "disabled"), _BLUE),
}
_SUBJECT: Final = r"(?:goalport|(?:model|tool group|upstream server) .+?:) "
_BEGINNING: Final = re.compile(rf"^(\s*(?:{_SUBJECT})?)({'|'.join(_COLOURS)})(?=[:,.\s]|$)")


def takes_colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal that shows colours, and colours are not turned off."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(line: str, stream: TextIO) -> str:
    """The line with the sign and the colour of its first word, where the stream is a terminal that shows them."""

    def painted(beginning: re.Match[str]) -> str:
        margin, word = beginning.groups()
        colour = _COLOURS[word]
        return f"{margin}\x1b[{colour}m{_SIGNS[colour]} {word}\x1b[0m"

    try:
        "".join(_SIGNS.values()).encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return line
    return _BEGINNING.sub(painted, line) if takes_colours(stream) else line
