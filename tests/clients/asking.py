"""The questions of the small workspace, as every client that shows forms answers them. No test is in here.

A client is told with each call what its person does with the forms that it shows: the fields of an answer, or one of
the words of `PERSON`. It tells the result, or the error of a call that failed in the client itself, and what was asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.clients.playing import Heard, Request, Script

PERSON: Final = ("open", "decline", "cancel", "raise", "garble", "ignore", "leave")
"""What a person, or the handler of forms, may do besides answering: open an address; say no; close the form; fail; give
what is no answer at all; never answer; end the client."""
ROOM, REASON, GUEST, EXTRAS, AGREED = ANSWERS = (
    {"choice": "14"},
    {"answer": "The sea"},
    {"nights": 3, "most": 120, "meal": "supper", "pets": True, "city": "Bergen"},
    {"wanted": ["towels", "boat"]},
    {"confirmed": True},
)
MESSAGES = ["Which room?", "What brings you here?", "Who comes?", "What else?", "270 euros?"]
STAY = (
    "Garden for Ada of Kirkeveien 1, Bergen; 3 nights, supper, 120 euros at most, pets: True;"
    " with ['towels', 'boat']; The sea; 270 euros"
)
WISH = {"content": "a room by the sea"}
ADDRESS: Final = "https://example.com/deposit?stay=1"
KEY: Final = "goalport/idempotencyKey"
HANDLE: Final = "goalport/handle"
_TITLES: Final = [{"const": "12", "title": "Attic"}, {"const": "14", "title": "Garden"}]


@dataclass(frozen=True)
class Standing:
    """A process whose question a person did not answer, as its handle says."""

    process_id: str
    question: Mapping[str, Any]

    @classmethod
    def read(cls, heard: Heard, message: str) -> "Standing":
        assert not heard.error, heard
        assert not heard.failed, heard
        assert heard.structured is not None
        assert heard.structured["status"] == "waiting", heard
        (question,) = heard.structured["questions"]
        assert question["message"] == message
        return cls(heard.structured["processId"], question)

    def submit(self, data: Mapping[str, Any], *answers: Any) -> Request:
        return Request("process_answer", {"processId": self.process_id, "answer": data}, answers)


def take_room(*answers: Any, **meta: Any) -> Request:
    return Request("take_room", WISH, answers, meta)


def leaving(key: str) -> Request:
    """A call during whose first form the client ends."""
    return take_room("leave", **{KEY: key})


def every_form(revision: str) -> Script:
    """A call whose questions are all answered; the first revision with forms has none for several choices."""
    if revision == "2025-06-18":
        heard = yield take_room(ROOM, REASON, GUEST)
        extras = Standing.read(heard, "What else?")
        _check_forms(heard.asked, revision)
        heard = yield extras.submit(EXTRAS, AGREED)
        assert [each["message"] for each in heard.asked] == MESSAGES[4:]
    else:
        heard = yield take_room(*ANSWERS)
        assert [each["message"] for each in heard.asked] == MESSAGES
        _check_forms(heard.asked, revision)
    _check_stay(heard)


def _check_stay(heard: Heard) -> None:
    assert not heard.error, heard
    assert (heard.text, heard.structured) == (STAY, {"content": STAY}), heard


def _check_forms(asked: Sequence[Mapping[str, Any]], revision: str) -> None:
    room, reason, guest, *others = (each["requestedSchema"] for each in asked)
    full = revision != "2025-06-18"
    choice = {"oneOf": _TITLES} if full else {"enum": ["12", "14"], "enumNames": ["Attic", "Garden"]}
    assert choice.items() <= room["properties"]["choice"].items()
    assert reason["properties"]["answer"]["minLength"] == 1
    _check_guest(guest["properties"], full=full)
    assert "required" not in guest, "a draft has all of it"
    if others:
        wanted = others[0]["properties"]["wanted"]
        assert wanted["items"]["enum"] == ["towels", "bicycle", "boat"]
        assert others[1]["properties"]["confirmed"]["type"] == "boolean"


def _check_guest(fields: Mapping[str, Any], *, full: bool) -> None:
    kinds = {name: each["type"] for name, each in fields.items()}
    text = dict.fromkeys(("name", "meal", "street", "city"), "string")
    assert kinds == {**text, "nights": "integer", "most": "number", "pets": "boolean"}
    assert fields["name"]["title"] == "Name"
    assert (fields["nights"]["minimum"], fields["nights"]["maximum"]) == (1, 14)
    assert fields["meal"]["enum"] == ["breakfast", "supper"]
    assert "more than 0" in fields["most"]["description"]
    assert fields["pets"]["default"] is False
    assert fields["city"].get("default") == ("Oslo" if full else None)
    assert ("default: Ada" in fields["name"]["description"]) is not full


def mistakes_and_a_no() -> Script:
    """An answer that is not valid is asked again, and says what was wrong; a no leaves no way to the goal."""
    heard = yield take_room({"choice": "Cellar"}, ROOM, "decline")
    assert heard.failed, heard
    assert "declined" in heard.text
    first, again, reason = (each["message"] for each in heard.asked)
    assert (first, reason) == (MESSAGES[0], MESSAGES[1])
    assert "Cellar" in again
    assert again.endswith(MESSAGES[0])


def three_mistakes() -> Script:
    """After three answers that are not valid the client gets the handle, which takes the fourth."""
    heard = yield take_room(*[{"choice": "Cellar"}] * 3)
    assert len(heard.asked) == 3
    standing = Standing.read(heard, MESSAGES[0])
    heard = yield standing.submit(ROOM, "decline")
    assert [each["message"] for each in heard.asked] == [MESSAGES[1]]
    assert heard.failed, heard


def a_closed_form() -> Script:
    """A form that is closed gives the handle; the answer to that is followed by the other forms, and none twice."""
    heard = yield take_room(ROOM, "cancel")
    standing = Standing.read(heard, MESSAGES[1])
    assert [each["message"] for each in heard.asked] == MESSAGES[:2]
    heard = yield standing.submit(REASON, GUEST, "cancel")
    standing = Standing.read(heard, MESSAGES[3])
    assert [each["message"] for each in heard.asked] == MESSAGES[2:4]
    heard = yield standing.submit(EXTRAS, AGREED)
    assert [each["message"] for each in heard.asked] == MESSAGES[4:]
    _check_stay(heard)


def a_handler_that_fails(word: str, revision: str, key: str) -> Script:
    """A client whose handler of forms fails is asked once. The question stays open, and the same call finds it.

    Since 2026-07-28 it is the client that goes on with the call, so its failure ends the call there.
    """
    heard = yield take_room(word, **{KEY: key})
    assert [each["message"] for each in heard.asked] == MESSAGES[:1]
    if revision == "2026-07-28":
        assert heard.error, heard
        yield from a_question_that_is_open(key)
    else:
        yield from _answered_later(heard)


def a_question_that_is_open(key: str) -> Script:
    """The same call again finds the process that waits, and gives its handle."""
    heard = yield take_room(**{KEY: key, HANDLE: True})
    assert not heard.asked
    yield from _answered_later(heard)


def _answered_later(heard: Heard) -> Script:
    standing = Standing.read(heard, MESSAGES[0])
    heard = yield standing.submit(ROOM, "decline")
    assert [each["message"] for each in heard.asked] == MESSAGES[1:2], "nothing is asked twice"
    assert heard.failed, heard


def a_person_who_never_answers() -> Script:
    """Before 2026-07-28 the call waits for its budget, closes the form and gives the handle, which takes the answer."""
    heard = yield Request("hold_room", WISH, ("ignore",))
    assert [each["message"] for each in heard.asked] == MESSAGES[:1]
    standing = Standing.read(heard, MESSAGES[0])
    heard = yield standing.submit(ROOM)
    assert heard.structured == {"content": "Garden is held"}, heard
    assert not heard.asked


def an_address(revision: str) -> Script:
    """An address is shown as one, and after that a form asks whether it is done; the first revision has none."""
    heard = yield Request("take_deposit", WISH, ("open", {"confirmed": True}))
    if revision == "2025-06-18":
        assert not heard.asked
        process_id = Standing.read(heard, "Leave a deposit.").process_id
        heard = yield Request("process_answer", {"processId": process_id, "answer": True})
        assert heard.structured == {"content": f"paid at {ADDRESS}"}, heard
        return
    assert [each.get("url") for each in heard.asked] == [ADDRESS, None], heard
    assert [each["mode"] for each in heard.asked] == ["url", "form"]
    assert heard.structured == {"content": f"paid at {ADDRESS}"}, heard


def a_task() -> Script:
    """A goal that only those get who follow tasks."""
    heard = yield Request("reserve_room", WISH, (ROOM,))
    assert [each["message"] for each in heard.asked] == MESSAGES[:1]
    assert heard.structured == {"content": "Garden is reserved"}, heard


def no_task() -> Script:
    """The same goal for a client that does not."""
    heard = yield Request("reserve_room", WISH, (ROOM,))
    assert heard.error, heard
    assert not heard.asked


def every_story(revision: str, key: str) -> Script:
    """The whole conversation; `key` is one that no other client has."""
    yield from every_form(revision)
    yield from an_address(revision)
    yield from mistakes_and_a_no()
    yield from three_mistakes()
    if revision != "2025-06-18":
        yield from a_closed_form()
    yield from a_handler_that_fails("raise", revision, f"{key}-raise")
    yield from a_handler_that_fails("garble", revision, f"{key}-garble")
    if revision != "2026-07-28":
        yield from a_person_who_never_answers()
