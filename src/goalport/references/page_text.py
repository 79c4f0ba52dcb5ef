"""The text of a web page: headings, paragraphs and list items, one in a line, without scripts and navigation."""

from html.parser import HTMLParser
from typing import Final

__all__ = ["page_text"]

_LEFT_OUT: Final = frozenset({"script", "style", "noscript", "template", "nav", "svg", "iframe"})
_BREAKS: Final = frozenset(
    {"p", "div", "br", "li", "tr", "section", "article", "header", "footer", "main", "table", "ul", "ol", "pre", "dd"}
    | {"dt", "title", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr"}
)
_HEADINGS: Final = {f"h{level}": f"{'#' * level} " for level in range(1, 7)}


def page_text(html: str) -> str:
    """The text of a page as lines; headings begin with `#`."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.parts).split("\n"))
    return "\n".join(line for line in lines if line.strip("#- "))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._left_out: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _LEFT_OUT:
            self._left_out.append(tag)
        elif tag in _BREAKS:
            self.parts.append("\n" + _HEADINGS.get(tag, "- " if tag == "li" else ""))

    def handle_endtag(self, tag: str) -> None:
        if tag in self._left_out:
            del self._left_out[self._left_out.index(tag) :]
        elif tag in _BREAKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._left_out:
            self.parts.append(data)
