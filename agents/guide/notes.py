"""What people propose to change in the docs, as files that the maintainers read."""

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Notes"]


@dataclass(frozen=True, slots=True)
class Notes:
    """A folder of notes."""

    folder: Path

    def write(self, key: str, author: str, text: str) -> Path:
        """Write a note and return its file. A key that comes again means the same note, which is written once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"{re.sub(r'[^0-9A-Za-z]+', '-', key)}.md"
        file.write_text(f"From: {author}\n\n{text}\n", encoding="utf-8")
        return file
