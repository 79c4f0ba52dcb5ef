"""Images for models that see: bytes and their media type. User guide, section 3.8.3."""

import mimetypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from goalport.errors import BadInput

__all__ = ["Image"]

_MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/tiff", "image/heic")
mimetypes.add_type("image/webp", ".webp")
mimetypes.add_type("image/heic", ".heic")


@dataclass(frozen=True, slots=True)
class Image:
    """An image that goes to a model with a prompt."""

    media_type: str
    """For example `image/png`."""
    data: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not self.media_type.startswith("image/"):
            raise BadInput(f"Expected the media type of an image, like image/png, but came {self.media_type!r}.")
        if not self.data:
            raise BadInput("Expected an image, but it has no bytes.")

    @classmethod
    def from_path(cls, path: str | Path) -> Self:
        """The image in a file; its type is told by the file's name. Raises `BadInput` for a name that does not tell."""
        return cls.from_bytes(Path(path).name, Path(path).read_bytes())

    @classmethod
    def from_bytes(cls, filename: str, data: bytes) -> Self:
        """An image whose type the file name tells. Raises `BadInput` for a name that does not tell."""
        media_type, _ = mimetypes.guess_type(filename)
        if media_type not in _MEDIA_TYPES:
            raise BadInput(
                f"Cannot tell what kind of image {filename!r} is. "
                f"Name the type: Image(media_type, data), with one of {', '.join(_MEDIA_TYPES)}."
            )
        return cls(media_type, data)
