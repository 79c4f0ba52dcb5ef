"""Moves the objects of ended processes from memory to files, and reads them again. Below: the files, and the codec."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from goalport.errors import StoreError
from goalport.store.records import ObjectRecord, StoredProcess, ValueCodec
from goalport.store.rows import json_text
from goalport.store.spill import Spilled, SpillFiles

__all__ = ["ObjectFiles", "without_values"]


class ObjectFiles:
    """Writes and reads objects as JSON, in a thread of its own.

    Parameters: `folder` has the files. `codec` writes and reads the values of a process, by its id.
    """

    def __init__(self, folder: Path, codec: Callable[[str], ValueCodec]) -> None:
        self.codec = codec
        # What is kept for hours must not keep the space of what is dropped after seconds.
        self._short, self._long = SpillFiles(folder), SpillFiles(folder)
        self._thread = ThreadPoolExecutor(1, "goalport-objects")

    def move(self, members: Sequence[StoredProcess], *, long: bool) -> "Future[Mapping[str, Spilled]]":
        """Write the objects of each process to a file; the result has them by the ids of their processes.

        The future raises `Unstorable` for objects that JSON cannot say, and `OSError`.
        """
        return self._thread.submit(self._write, members, self._long if long else self._short)

    def _write(self, members: Sequence[StoredProcess], files: SpillFiles) -> Mapping[str, Spilled]:
        written = {each.process.id: _text(each.objects, self.codec(each.process.id)) for each in members}
        return {process: files.write(text.encode("utf-8")) for process, text in written.items()}

    async def read(self, members: Sequence[StoredProcess], moved: Mapping[str, Spilled]) -> Sequence[StoredProcess]:
        """Processes with the objects that were moved.

        Raises `StoreError`, and `Unreadable` if today's classes cannot take them.
        """
        try:
            texts = await asyncio.to_thread(lambda: {process: each.read() for process, each in moved.items()})
        except OSError as error:
            problem = f"A large result cannot be read from its file: {error.strerror}."
            raise StoreError("in memory", problem, "Look at the disk of its folder.") from error
        return [
            each if (text := texts.get(each.process.id)) is None else _filled(each, text, self.codec(each.process.id))
            for each in members
        ]


def without_values(stored: StoredProcess) -> StoredProcess:
    """A process whose objects are elsewhere."""
    return stored._replace(objects=[each._replace(value=None) for each in stored.objects])


def _text(objects: Sequence[ObjectRecord], codec: ValueCodec) -> str:
    return json_text([[each.number, codec.encode(each.value, each.number)] for each in objects])


def _filled(stored: StoredProcess, text: bytes, codec: ValueCodec) -> StoredProcess:
    values = {number: codec.decode(value, number) for number, value in json.loads(text)}
    objects = [each._replace(value=values.get(each.number, each.value)) for each in stored.objects]
    return stored._replace(objects=objects)
