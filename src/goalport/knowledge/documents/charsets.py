"""The text that bytes are: in which encoding they are written, and which of its characters can be seen."""

import codecs
import re
from typing import Final

from goalport.base.words import visible

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LINE_ENDS: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_LOOKED_AT: Final = 100_000
_NOT_FOR_TEXTS: Final = frozenset(
    {"idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}
)
"""Codecs of Python that texts are not written in."""
_MEANT: Final = {
    "ascii": "cp1252",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "shift_jis": "cp932",
    "tis-620": "cp874",
}
"""Encodings that texts are said to be in, and the larger ones in which browsers read them: encoding.spec.whatwg.org."""


def decoded(data: bytes, charset: str | None = None) -> str:
    """The text in these bytes. A byte order mark says the encoding, else `charset`; otherwise it is found out.

    Raises ValueError where they are no text.
    """
    said = _known(charset)
    wide = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)
    if wide is None:
        wide = said if said is not None and said.startswith(("utf-16", "utf-32")) else _utf_16_without_mark(data)
    if wide is not None:
        return data.decode(wide, "replace")
    beginning = data[:_LOOKED_AT]
    if len(_CONTROL.findall(beginning)) > max(2, len(beginning) // 50):
        raise ValueError("it is binary data and no text")
    for each in dict.fromkeys((said or "utf-8", "utf-8", "cp1252")):
        try:
            return data.decode(each)
        except UnicodeDecodeError as problem:
            # The last character of a text that was cut off, or a single slip, does not make it another encoding.
            if each == "utf-8" and problem.start > 0:
                text = data.decode(each, "replace")
                if text.count("\N{REPLACEMENT CHARACTER}") * 20 < sum(not letter.isascii() for letter in text):
                    return text
    return data.decode("latin-1")


def normalized(text: str) -> str:
    """The text with line feeds as its line ends, and without the characters that show nothing.

    Those hide words from people and not from models, and tear words apart for a search.
    """
    return visible(_LINE_ENDS.sub("\n", text))


def _known(charset: str | None) -> str | None:
    try:
        name = codecs.lookup(charset).name if charset and charset.isascii() else None
        # Codecs that compress, for example, refuse texts; of an empty one they say nothing.
        " ".encode(name or "ascii")
    except (LookupError, ValueError):
        return None
    return _MEANT.get(name or "", name) if name not in _NOT_FOR_TEXTS else None


def _utf_16_without_mark(data: bytes) -> str | None:
    """UTF-16 whose bytes are nearly all zeros in one half."""
    beginning = data[: _LOOKED_AT & ~1]
    half = len(beginning) // 2
    even, odd = beginning[::2].count(0), beginning[1::2].count(0)
    if odd > 0.9 * half and even < 0.1 * half:
        return "utf-16-le"
    return "utf-16-be" if even > 0.9 * half and odd < 0.1 * half else None
