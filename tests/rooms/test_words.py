"""How messages name things: the same way in every room."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ForwardRef, Generic, List, Literal, NewType, Optional, TypeVar  # noqa: UP035 - users do

import pytest
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError
from typing_extensions import TypeAliasType

from goalport.base.words import (
    class_name,
    cleaned,
    corrections,
    did_you_mean,
    error_summary,
    first_line,
    in_json,
    listed,
    nearest,
    offer,
    one_line,
    type_label,
    type_name,
    validation_problems,
    with_article,
)

T = TypeVar("T")
Isbn = NewType("Isbn", str)


class Story(BaseModel):
    """A type of a user."""


class Page(BaseModel, Generic[T]):
    """A generic model, of which pydantic makes a class for each argument."""

    items: list[T]


class Shelf(Generic[T]):
    """A generic class."""


Stories = TypeAliasType("Stories", list[Story])


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Story, "Story"),
        (Story | None, "Story | None"),
        (Optional[Story], "Story | None"),  # noqa: UP045
        (list[Story], "list[Story]"),
        (List[Story], "list[Story]"),  # noqa: UP006
        (List, "list"),  # noqa: UP006
        (list[Story | None], "list[Story | None]"),
        (dict[str, Any], "dict[str, Any]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (tuple[()], "tuple[()]"),
        (Sequence[Story], "Sequence[Story]"),
        (Iterable[Isbn], "Iterable[Isbn]"),
        (Callable[[int], str], "Callable[[int], str]"),
        (Callable[..., Story], "Callable[..., Story]"),
        (Page, "Page"),
        (Page[Story], "Page[Story]"),
        (Page[Story | None], "Page[Story | None]"),
        (list[Page[Story]], "list[Page[Story]]"),
        (Shelf[Story], "Shelf[Story]"),
        (Isbn, "Isbn"),
        (Stories, "Stories"),
        (Annotated[Story, "a note"], "Story"),
        (Annotated[list[Story] | None, Field()], "list[Story] | None"),
        (Literal["a", 1], "Literal['a', 1]"),
        (ForwardRef("Story"), "Story"),
        ("Story", "Story"),
        (T, "T"),
        (Any, "Any"),
        (None, "None"),
        (type(None), "None"),
    ],
)
def test_a_type_is_called_as_its_author_writes_it(kind: object, name: str) -> None:
    assert type_name(kind) == name


@pytest.mark.parametrize(
    ("kind", "label"),
    [(list[Story], "list_Story"), (Story | None, "Story_or_None"), (dict[str, Page[Story]], "dict_str_Page_Story")],
)
def test_a_label_holds_what_every_name_may(kind: object, label: str) -> None:
    assert type_label(kind) == label


@pytest.mark.parametrize("noun", ["a Story", "an Order", "an UnpaidBill", "a Unit", "a list[Order]"])
def test_a_name_takes_its_article(noun: str) -> None:
    assert with_article(noun.partition(" ")[2]) == noun


def test_the_nearest_names_come_first_whatever_their_case() -> None:
    known = ["Story", "stories", "store", "max_turns"]
    assert nearest("storys", known) == ("Story",)
    assert nearest("stor", [*known, "stork", "storm", "storz"]) == ("storz", "Story", "storm")
    assert nearest("MAX-TURNS", known) == ("max_turns",)
    assert nearest("poem", known) == ()
    assert nearest("storys", known, likeness=0.95) == ()


def test_names_of_any_length_are_compared_in_bounded_time() -> None:
    assert nearest("x" * 1_000_000, ["x" * 80, "y"]) == ("x" * 80,)


def test_names_that_are_offered_are_a_question_or_a_list() -> None:
    assert did_you_mean(["a", "b"]) == "Did you mean 'a' or 'b'?"
    assert did_you_mean([]) == ""
    assert offer("topik", ["topic", "days"]) == "Did you mean 'topic'?"
    assert offer("zzz", ["topic", "days"]) == "Known: topic, days."
    assert offer("zzz", [], none="There are no arguments.") == "There are no arguments."
    assert offer("zzz", map(str, range(25)), most=2) == "Known: 0, 1 and 23 more."
    assert listed(["a", "b"]) == "a, b"


def test_what_pydantic_refuses_is_told_by_field_and_in_one_way() -> None:
    class Shelved(BaseModel, extra="forbid"):
        title: str
        pages: int

    with pytest.raises(ValidationError) as refused:
        TypeAdapter(list[Shelved]).validate_python([{"title": "Odes", "pages": "many", "page": 3}, {"title": 1}])
    value = [{"title": "Odes", "pages": "many", "page": 3}, {"title": 1}]
    assert validation_problems(refused.value, value) == (
        "[0].pages: should be a whole number; came 'many'",
        "[0].page: unknown.",
        "[1].title: should be a text; came 1",
        "[1].pages: required, but missing",
    )
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(int).validate_python("many")
    (problem,) = validation_problems(refused.value, "many", root="answer")
    assert problem.startswith("answer: should be a whole number")
    assert corrections([problem], of="answer").startswith("The answer needs correcting:\n- answer: should be")
    assert corrections(["a: unknown."] * 30).splitlines()[-1] == "- and 10 more"


def test_what_came_is_said_once_also_where_a_validator_has_said_it() -> None:
    def even(number: int) -> int:
        raise ValueError(f"should be even; came {number!r}")

    with pytest.raises(ValidationError) as refused:
        TypeAdapter(Annotated[int, AfterValidator(even)]).validate_python(3)
    assert validation_problems(refused.value, 3, root="number") == ("number: should be even; came 3",)


def test_a_text_that_comes_from_outside_keeps_nothing_that_nobody_sees() -> None:
    assert cleaned("a\x1b[31mb\u202ec\x00d\te\nf é") == "abcd\te\nf é"
    assert cleaned("a\u200bb\U000e0041c\ud800d\u200de ") == "abcd\u200de"
    assert cleaned("x" * 30, 10) == f"{'x' * 10}…"
    assert first_line("one\ntwo") == "one"
    assert one_line(" one\n\t two ") == "one two"


def test_classes_and_errors_are_named_for_messages() -> None:
    assert class_name(Story) == f"{__name__}: Story"
    assert error_summary(ValueError("no such day")) == "ValueError: no such day"
    assert error_summary(ValueError()) == "ValueError"


def test_every_value_can_be_written_for_a_reader() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    ring: list[object] = [1]
    ring.append(ring)
    assert in_json({"name": "Ada", "data": b"\xff"}) == '{"name":"Ada","data":"_w=="}'
    assert "..." in in_json(ring)
    assert in_json("\ud800") == "'\\ud800'"
    assert in_json([Broken()]).startswith('["<Broken instance at')
    assert len(in_json("x" * 9_000)) == 9_002
