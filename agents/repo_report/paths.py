r"""A path as the file system has it, and how it is kept where only Unicode can be.

Pure. Names on a file system are bytes; Python stands lone surrogates in for those that are not UTF-8, and JSON cannot
hold these. So that a run can be stored whatever names it has met, a path is written with such bytes as `\xe9`.
"""

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

ESCAPE = re.compile(r"\\(\\|x([0-9a-f]{2}))")
BYTE = 0xDC00
"""The surrogate that stands for byte 0xe9 is 0xdce9."""


def written(path: str) -> str:
    """Write a path in characters that JSON can hold."""
    return path.replace("\\", "\\\\").encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def read(text: str) -> str:
    """Read what `written` wrote."""
    return ESCAPE.sub(lambda found: chr(BYTE + int(found[2], 16)) if found[2] else "\\", text)


FilePath = Annotated[str, PlainSerializer(written), BeforeValidator(read)]
