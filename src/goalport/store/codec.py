"""The codec: the objects of a process as JSON data, and back.

A codec belongs to one process and remembers its objects, so that an object that is met again is written as a reference
and comes back as one object. The data says which classes to use by names; nothing that it says is imported, called or
evaluated.

None, bool, int, float, str and a list of values stand for themselves. Everything else is an object with one key, which
says what it is: `{"agents.star_news:Writeup": {"title": "Aries"}}` for an object with its fields, `{"$date": …}` for
standard types, `{"$type": …}` for types, and `{"$ref": [3, 0]}` for what was written before: the number of an object
and the place in it, or the place alone in the same object. Lists, objects with a key and long texts have a place, in
the order in which they are written. Fields are sorted, so that the order of keys in JSON does not matter.

Below: `encoder` and `decoder`. Above: `process` makes records with it, and a database keeps them.
"""

from collections.abc import Iterator
from typing import cast

from goalport.base.errors import Unstorable
from goalport.base.words import type_name
from goalport.store.decoder import Decoder
from goalport.store.encoder import Encoder, Places, Seal, StoredTypes
from goalport.store.records import ObjectRecord, StoredProcess
from goalport.store.standard_types import Json


class Codec:
    """Writes and reads the objects of one process. It keeps them as long as it lives.

    `types`: shared by the codecs of all processes. `seal`: encrypts secrets; without it they cannot be written.
    """

    def __init__(self, types: StoredTypes, *, seal: Seal | None = None) -> None:
        self._types = types
        self._seal = seal
        self._where: Places = {}
        self._objects: dict[int, list[object]] = {}
        """What each object holds, by place: these references also keep identities from being used again."""

    def encode(self, value: object, number: int | None = None) -> Json:
        """A value as JSON data.

        `number`: the number of the object in its process, to which later data refers; None for data that is written
        anew each time, such as the state of a process: it refers to objects, and nothing refers to it. Objects count as
        immutable: one that was changed after it was written is not written again. Raises `Unstorable` for a value that
        cannot be written, and then remembers nothing of it.
        """
        if number is not None:
            self._forget(number)
        encoder = Encoder(self._types, self._where, number, self._seal)
        kept = False
        try:
            data = encoder.value(value)
            kept = number is not None
        except Unstorable as error:
            raise (error.within(type_name(type(value))) if error.path else error) from None
        finally:
            if not kept:
                encoder.forget()
        if number is not None:
            self._objects[number] = encoder.objects
        return data

    def decode(self, data: Json, number: int | None = None) -> object:
        """The value of JSON data; `number` as for `encode`.

        Objects are read in the order of their numbers, and before what was written without one. Raises `Unreadable` for
        data that today's classes cannot take.
        """
        decoder = Decoder(self._types, self._objects, self._seal)
        value = decoder.value(data)
        if number is not None:
            self._forget(number)
            self._objects[number] = decoder.objects
            for place, each in enumerate(decoder.objects):
                self._where.setdefault(id(each), (number, place))
        return value

    def _forget(self, number: int) -> None:
        for each in self._objects.pop(number, ()):
            if self._where.get(id(each), (None, 0))[0] == number:
                del self._where[id(each)]


def references(data: Json) -> Iterator[int]:
    """The numbers of the objects to which data refers; they have to be kept as long as the data is."""
    waiting: list[Json] = [data]
    while waiting:
        match waiting.pop():
            case {"$ref": [int() as number, int()]}:
                yield number
            case {**inner}:
                waiting += inner.values()
            case [*inner]:
                waiting += inner
            case _:
                pass


def encoded(stored: StoredProcess, codec: Codec) -> StoredProcess:
    """The same records with values that JSON can say; the objects first, since all others may refer to them.

    The definition of the process is left as it is. Raises `Unstorable`.
    """
    objects = [
        ObjectRecord(each.number, codec.encode(each.value, each.number), codec.encode(each.kind))
        for each in stored.objects
    ]
    questions = [
        each._replace(wait=codec.encode(each.wait), answer=codec.encode(each.answer)) for each in stored.questions
    ]
    journal = [each._replace(value=codec.encode(each.value)) for each in stored.journal]
    state = stored.process.state
    return stored._replace(
        process=stored.process._replace(state=None if state is None else codec.encode(state)),
        objects=objects,
        history=[codec.encode(each) for each in stored.history],
        spendings=[codec.encode(each) for each in stored.spendings],
        questions=questions,
        journal=journal,
    )


def decoded(stored: StoredProcess, codec: Codec) -> StoredProcess:
    """The records that `encoded` was given. Raises `Unreadable` for data that today's classes cannot take."""
    objects = [
        ObjectRecord(each.number, codec.decode(cast("Json", each.value), each.number), _value(each.kind, codec))
        for each in stored.objects
    ]
    questions = [
        each._replace(wait=_value(each.wait, codec), answer=_value(each.answer, codec)) for each in stored.questions
    ]
    return stored._replace(
        process=stored.process._replace(state=_value(stored.process.state, codec)),
        objects=objects,
        history=[_value(each, codec) for each in stored.history],
        spendings=[_value(each, codec) for each in stored.spendings],
        questions=questions,
        journal=[each._replace(value=_value(each.value, codec)) for each in stored.journal],
    )


def _value(data: object, codec: Codec) -> object:
    return codec.decode(cast("Json", data))
