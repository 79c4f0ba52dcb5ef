"""How much of a document is read, and how long that may take."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLimits:
    """The largest document that is read. What is larger is refused as a whole, never cut."""

    max_bytes: int = 50_000_000
    """Of the file."""
    max_characters: int = 20_000_000
    """Of the text in it."""
    max_lines: int = 500_000
    """Of the text, and elements of a web page: each costs time and memory, however little is in it."""
    conversion_seconds: float = 60
    """For making Markdown of a file that is neither text nor a web page."""
    conversion_memory: int = 1_000_000_000
    """In bytes, of the child process that does so. It starts with about half of that reserved and a tenth in use."""

    def for_child(self) -> dict[str, int]:
        """The same for the child process."""
        seconds = math.ceil(self.conversion_seconds)
        return {"seconds": seconds, "memory": self.conversion_memory, "text": self.max_characters}
