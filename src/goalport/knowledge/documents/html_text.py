"""Web pages: the text that a person reads, in the order of the page. Headings become sections.

Tables, lists and code become Markdown. Navigation, scripts, forms and hidden elements are left out.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from goalport.base.errors import UnreadableDocument
from goalport.base.words import one_line
from goalport.knowledge.documents.content import NavigableDocument, Outline, document_of, normalized, title_from

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_TAG: Final = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_CLOSED_BY_OTHERS: Final = frozenset(
    {"area", "base", "br", "col", "colgroup", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta"}
    | {"optgroup", "option", "p", "param", "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track", "wbr"}
)
"""Elements that other tags close: pages may leave them open without nesting what follows."""
_MOST_DEPTH: Final = 512
"""As in browsers. A parser of HTML takes quadratic time in the depth."""
_LEFT_OUT: Final = (
    "script, style, template, noscript, iframe, object, svg, math, nav, button, select, textarea, input, dialog, "
    "[hidden], [aria-hidden=true], [style*='display:none' i], [style*='display: none' i], "
    "[style*='visibility:hidden' i], [style*='visibility: hidden' i], [role=navigation], [role=search], "
    "[role=banner], [role=contentinfo], a.headerlink, a.anchor"
)
_MAIN: Final = ("main", "[role=main]", "article")
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_BLOCKS: Final = frozenset(
    {"address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt"}
    | {"fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "legend", "main", "p"}
    | {"section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr"}
)
_NO_DATA: Final = "h1, h2, h3, pre, ul, ol, td p + p"
"""Elements in a table that show that the table is only used for layout."""
_CODE: Final = frozenset({"code", "kbd", "samp", "tt"})
_LANGUAGE: Final = re.compile(r"(?:^|\s)(?:language|lang|highlight)-([\w+#.-]{1,30})")
_HEADING_MARKS: Final = " \t¶#§🔗"


def html_charset(data: bytes) -> str | None:
    """The encoding that a page declares in a `meta` element."""
    found = _CHARSET.search(data[:4096])
    charset = found[1].decode("ascii", "replace") if found is not None else ""
    # If this can be read as ASCII, the page is not in UTF-16, even if it says so.
    return charset if charset and not charset.lower().startswith("utf-16") else None


def read_html(
    text: str, uri: str, *, title: str | None = None, metadata: Mapping[str, JsonValue] | None = None
) -> NavigableDocument:
    """The document of a web page.

    Its title is `title`, else its only `h1` if the page's `<title>` begins with it, else that `<title>`, else its
    first `h1`, else the name in the URI.
    """
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError:
        raise UnreadableDocument(
            uri, "reading web pages needs a library that is not installed: pip install 'goalport[ingest]'"
        ) from None
    depth = 0
    for tag in _TAG.finditer(text):
        if tag[2].lower() not in _CLOSED_BY_OTHERS:
            depth = max(0, depth - 1) if tag[1] else depth + 1
        if depth > _MOST_DEPTH:
            raise UnreadableDocument(uri, f"its elements are nested more than {_MOST_DEPTH} deep")
    # The parser itself would encode a text as UTF-8, which fails for lone surrogates.
    page = LexborHTMLParser(normalized(text).encode("utf-8", "replace"))
    root = page.css_first("html")
    found = {"language": root.attributes.get("lang") if root is not None else None}
    for name in ("description", "author", "keywords"):
        meta = page.css_first(f"meta[name={name} i]")
        found[name] = meta.attributes.get("content") if meta is not None else None
    known = {name: one_line(written) for name, written in found.items() if written and written.strip()}
    titled = page.css_first("title")
    page_title = one_line(titled.text()) if titled is not None else ""
    for each in page.css(_LEFT_OUT):
        each.decompose()
    outline = Outline()
    _write(_main(page), outline)
    first = [each.title for each in outline.headings if each.level == 1]
    alone = first[0] if len(first) == 1 and first[0] and page_title.startswith(first[0]) else ""
    return document_of(
        uri,
        one_line(title or "") or alone or page_title or (first[0] if first else "") or title_from(uri),
        outline.text,
        outline.headings,
        metadata={**known, **(metadata or {})},
    )


def _main(page: "LexborHTMLParser") -> "LexborNode | None":
    """The element with the main content of a page; if none is marked, the body without headers and footers."""
    for selector in _MAIN:
        found = page.css(selector)
        if len(found) == 1 and found[0].text(skip_empty=True).strip():
            return found[0]
    for each in page.css("header, footer, aside"):
        if each.tag != "header" or each.css_first("h1, h2") is None:
            each.decompose()
    return page.body


def _write(root: "LexborNode | None", outline: Outline) -> None:
    """Write an element and all below it. Functions on the stack are called where an element ends."""
    waiting: list[LexborNode | Callable[[], None]] = [root] if root is not None else []
    while waiting:
        each = waiting.pop()
        if callable(each):
            each()
        elif not _write_leaf(each, tag := each.tag or "", outline):
            if tag in {"ul", "ol"}:
                outline.list_begins(numbered=tag == "ol")
                waiting.append(outline.list_ends)
            elif tag == "li":
                outline.list_item()
                waiting.append(outline.line_break)
            elif tag in _BLOCKS:
                outline.paragraph()
                waiting.append(outline.paragraph)
            waiting.extend(reversed(list(each.iter(include_text=True))))


def _write_leaf(node: "LexborNode", tag: str, outline: Outline) -> bool:
    """Write an element as a whole, if it is of such a kind; False: its children have to be written one by one."""
    if tag == "-text":
        outline.words(node.text_content or "")
    elif tag in _HEADINGS:
        outline.heading(int(tag[1]), _line(node).strip(_HEADING_MARKS))
    elif tag == "pre":
        around = node.parent.parent if node.parent is not None else None
        marked = [each for each in (node, node.css_first("code"), node.parent, around) if each is not None]
        classes = (_LANGUAGE.search(each.attributes.get("class") or "") for each in marked)
        outline.code(node.text(), next((found[1] for found in classes if found is not None), ""))
    elif tag in _CODE and "\n" not in node.text():
        outline.words(f"`{node.text()}`" if node.text().strip() else " ")
    elif tag == "br":
        outline.line_break()
    elif tag == "img":
        outline.words(f" {node.attributes.get('alt') or ''} ")
    elif tag == "table" and len(node.css("table")) <= 1 and node.css_first(_NO_DATA) is None:
        rows = [[_line(cell) for cell in row.css("td, th")] for row in node.css("tr")]
        if max(map(len, rows), default=0) <= 1 or not any(map(any, rows)):
            return False
        outline.table([row for row in rows if any(row)])
    else:
        return False
    return True


def _line(node: "LexborNode") -> str:
    """All words in an element, as one line."""
    parts: list[str] = []
    for each in node.traverse(include_text=True):
        tag = each.tag or ""
        if tag == "-text":
            parts.append(each.text_content or "")
        elif tag in _BLOCKS or tag in {"br", "li"}:
            parts.append(" ")
    return " ".join("".join(parts).split())
