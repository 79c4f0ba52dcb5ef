"""Writing names and figures so that people, models and Markdown take them for what they are.

Pure. A repository chooses its own file names and subjects: control characters, bytes that are not UTF-8 and Markdown of
theirs come out as plain, visible text, and none is long enough to drown the report.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

LONGEST = 160
UNITS = ("bytes", "kB", "MB", "GB", "TB")
THOUSAND, FINE_BELOW = 1000, 100
BYTES = range(0xDC80, 0xDD00)
"""Code points that stand for the bytes of a name that is not UTF-8."""
MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def shown(text: str, longest: int = LONGEST) -> str:
    """Spell out what cannot be printed, and cut what is too long in the middle."""
    visible = text if text.isprintable() else "".join(_visible(character) for character in text)
    if len(visible) <= longest:
        return visible
    half = (longest - 1) // 2
    return f"{visible[:half]}…{visible[-half:]}"


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    if ord(character) in BYTES:
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


def plain(text: str, longest: int = LONGEST) -> str:
    """Write text of others into Markdown as text."""
    return MARKUP.sub(r"\\\1", shown(text, longest))


def code(text: str) -> str:
    """Write a name into a cell of a Markdown table as code."""
    name = shown(text, 100).replace("|", "\\|")
    if not name:
        return ""
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", name)), default=0))
    space = " " if "`" in name else ""
    return f"{ticks}{space}{name}{space}{ticks}"


def size_in_words(size: float) -> str:
    """Write a number of bytes with the unit that suits it."""
    thousands = 0
    while size >= THOUSAND and thousands < len(UNITS) - 1:
        size /= THOUSAND
        thousands += 1
    decimals = 1 if thousands and size < FINE_BELOW else 0
    return f"{size:,.{decimals}f} {UNITS[thousands]}"


def day(moment: float) -> str:
    """Write the day of a time stamp."""
    try:
        return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return "unknown"


def number(figure: int) -> str:
    """Write a number with its thousands apart."""
    return f"{figure:,}"


def count(figure: int, thing: str, things: str = "") -> str:
    """Write a number of things: `1 file`, `2 files`."""
    return f"{figure:,} {thing if figure == 1 else things or thing + 's'}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a Markdown table; a heading that ends in a colon has its figures to the right."""
    names = [name.rstrip(":") for name in header]
    lines = ["--:" if name.endswith(":") else "---" for name in header]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (names, lines, *rows))
