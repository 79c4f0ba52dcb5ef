"""The text that bytes are: in which encoding they are written, and which of its characters can be seen.

Line ends become line feeds. Characters that show nothing are left out, because they hide words from people and not
from models, and tear words apart for a search; `words.cleaned` does the same for short texts.
"""

import codecs
import re
from typing import Final

__all__ = ["decoded", "visible"]

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LINE_ENDS: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_INVISIBLE_ASCII: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f]+")
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\ud800-\uf8ff\ufeff\ufff9-\ufffb]+"
)
"""Control and format characters without the joiners, lone surrogates, and characters for private use."""
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
_INVISIBLE_ASTRAL: Final = re.compile(
    "[\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001-\U000e007f"
    "\U000f0000-\U000ffffd\U00100000-\U0010fffd]+"
)
"""The same beyond the basic plane. A pattern with both is several times slower."""
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
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    encoding = _known(charset)
    if encoding is not None and _wide(encoding):
        return data.decode(encoding, "replace")
    wide = _wide_without_mark(data)
    if wide is not None:
        return data.decode(wide, "replace")
    if _is_binary(data):
        raise ValueError("it is binary data and no text")
    return _narrow(data, encoding)


def visible(text: str) -> str:
    """The text with line feeds as its line ends, and without the characters that show nothing."""
    if "\r" in text or not text.isascii():
        text = _LINE_ENDS.sub("\n", text)
    elif "\f" in text or "\v" in text:
        text = text.replace("\f", "\n").replace("\v", "\n")
    if text.isascii():
        return _INVISIBLE_ASCII.sub("", text)
    text = _INVISIBLE.sub("", text)
    return _INVISIBLE_ASTRAL.sub("", text) if _ASTRAL.search(text) else text


def _known(charset: str | None) -> str | None:
    try:
        name = codecs.lookup(charset).name if charset and charset.isascii() else None
        # Codecs that compress, for example, refuse texts; of an empty one they say nothing.
        " ".encode(name or "ascii")
    except (LookupError, ValueError):
        return None
    return _MEANT.get(name or "", name) if name not in _NOT_FOR_TEXTS else None


def _wide(encoding: str) -> bool:
    return encoding.startswith(("utf-16", "utf-32"))


def _wide_without_mark(data: bytes) -> str | None:
    """UTF-16 without a byte order mark: nearly all of one half of the bytes are zeros."""
    beginning = data[: _LOOKED_AT & ~1]
    half = len(beginning) // 2
    if not half:
        return None
    even, odd = beginning[::2].count(0), beginning[1::2].count(0)
    if odd > 0.9 * half and even < 0.1 * half:
        return "utf-16-le"
    return "utf-16-be" if even > 0.9 * half and odd < 0.1 * half else None


def _is_binary(data: bytes) -> bool:
    """Whether more than one in fifty of the bytes is a control character."""
    beginning = data[:_LOOKED_AT]
    return len(_CONTROL.findall(beginning)) > max(2, len(beginning) // 50)


def _narrow(data: bytes, encoding: str | None) -> str:
    for each in dict.fromkeys((encoding or "utf-8", "utf-8", "cp1252")):
        try:
            return data.decode(each)
        except UnicodeDecodeError as problem:
            # The last character of a text that was cut off, or a single slip, does not make it another encoding.
            if each == "utf-8" and _is_slip(data, problem):
                return data.decode(each, "replace")
    return data.decode("latin-1")


def _is_slip(data: bytes, problem: UnicodeDecodeError) -> bool:
    written = data.decode("utf-8", "replace")
    wrong = written.count("\N{REPLACEMENT CHARACTER}")
    return problem.start > 0 and wrong * 20 < sum(not each.isascii() for each in written)
