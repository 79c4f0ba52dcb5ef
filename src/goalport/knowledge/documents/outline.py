"""A text as it is written down, paragraph by paragraph, with what a reader of another format finds in it.

It is Markdown as far as people and models read it. Where its headings stand is noted, so that nothing is read twice.
"""

import re
from collections.abc import Sequence
from typing import Final

from goalport.base.words import one_line
from goalport.knowledge.documents.charsets import normalized
from goalport.knowledge.documents.sections import Heading

_FENCE: Final = re.compile("`{3,}")
_MOST_INDENT: Final = 10
_LONGEST_TITLE: Final = 200


class Outline:
    """Text that is being written, and its headings. Words are joined by single spaces."""

    def __init__(self) -> None:
        self.headings: list[Heading] = []
        self._parts: list[str] = []
        self._length = 0
        self._breaks = 0
        self._space = False
        self._marker = ""
        self._lists: list[int | None] = []
        """The number of the last item of each list around; None where items have no numbers."""

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def words(self, written: str) -> None:
        """Words of the paragraph; white space at their ends says whether they touch what is beside them."""
        words = " ".join(written.split())
        if not words:
            self._space = self._space or bool(written)
            return
        if self._breaks or not self._length:
            depth = min(len(self._lists), _MOST_INDENT)
            indent = "  " * (depth - 1 if self._marker else depth)
            self._put("\n" * (self._breaks if self._length else 0) + indent + self._marker)
            self._breaks, self._marker = 0, ""
        elif self._space or written[0].isspace():
            self._put(" ")
        self._put(words)
        self._space = written[-1].isspace()

    def paragraph(self) -> None:
        """What follows is another paragraph."""
        self._break(1 if self._marker else 2)

    def line_break(self) -> None:
        """What follows is in another line."""
        self._break(1)

    def heading(self, level: int, title: str) -> None:
        if title := one_line(title, _LONGEST_TITLE):
            start = self._block(f"{'#' * level} {title}")
            self.headings.append(Heading(level, title, start, self._length))

    def code(self, written: str, language: str = "") -> None:
        """Lines that stay as they are, between fences that are longer than any in them."""
        lines = written.strip("\n").rstrip()
        if lines.strip():
            fence = "`" * max(3, 3, *(len(each) + 1 for each in _FENCE.findall(lines)))
            self._block(f"{fence}{language}\n{lines}\n{fence}")

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Rows of cells, of which the first is the header."""
        header, *others = ([" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows)
        self._block("\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *others)))

    def list_begins(self, *, numbered: bool) -> None:
        self._break(1 if self._lists else 2)
        self._lists.append(0 if numbered else None)

    def list_item(self) -> None:
        self._break(1)
        number = self._lists[-1] if self._lists else None
        if number is None:
            self._marker = "- "
        else:
            self._lists[-1] = number + 1
            self._marker = f"{number + 1}. "

    def list_ends(self) -> None:
        if self._lists:
            self._lists.pop()
        self._marker = ""
        self._break(1 if self._lists else 2)

    def _break(self, lines: int) -> None:
        self._breaks = max(self._breaks, lines)
        self._space = False

    def _block(self, written: str) -> int:
        """Write lines that nothing stands before, not even the mark of a list's item; the place where they begin."""
        self._put("\n\n" if self._length else "")
        start, self._marker = self._length, ""
        self._put(written)
        self._breaks, self._space = 2, False
        return start

    def _put(self, written: str) -> None:
        # Formats have ways of their own to write invisible characters, as `&shy;` is one of HTML.
        written = normalized(written)
        self._parts.append(written)
        self._length += len(written)
