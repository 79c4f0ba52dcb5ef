"""What was stored by an earlier program: renamed, moved and changed classes; and which classes data may name at all.

The rows are written out here and not made by the codec, so that a change of the format cannot pass unnoticed.
"""

import json
import re
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pydantic import AwareDatetime, IPvAnyAddress, PastDate

from goalport.agents.domain import WaitFor
from goalport.base.errors import DeclarationError, Unreadable
from goalport.store import Codec, StoredTypes, TypeNames, persistent, storable
from goalport.workspace import workspace_importer
from tests.rooms.store import toys

TYPES = StoredTypes()

STORED = """{"agents.writer:Writeup": {
    "title": "Aries", "images": [{"agents.writer:Image": {"data": {"$bytes": "iVA="}}}, {"$ref": 3}],
    "at": {"$datetime": ["2026-01-02T03:04:05", "UTC"]}, "mood": {"agents.writer:Mood": "GOOD"},
    "$given": ["title", "images"]}}"""
"""A row of the first program, whose classes are `WRITER`."""
WRITER = """
    from dataclasses import dataclass
    from datetime import datetime, UTC
    from enum import Enum
    from pydantic import BaseModel

    class Mood(Enum):
        GOOD = 1

    @dataclass(frozen=True)
    class Image:
        data: bytes

    class Writeup(BaseModel):
        title: str
        images: list[Image] = []
        at: datetime = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        mood: Mood = Mood.GOOD
"""


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Give the workspace another `agents/writer.py`, and return that module."""
    file = tmp_path / "agents" / "writer.py"
    file.parent.mkdir()
    with workspace_importer(tmp_path):

        def write(source: str) -> Any:
            file.write_text(dedent(source))
            sys.modules.pop("goalport_workspace.agents.writer", None)
            return __import__("goalport_workspace.agents.writer", fromlist=["writer"])

        yield write


def read(row: str) -> Any:
    return Codec(StoredTypes()).decode(json.loads(row), 0)


def test_a_row_is_written_and_read_as_it_always_was(load: Callable[[str], Any]) -> None:
    writer = load(WRITER)
    value = read(STORED)
    image = writer.Image(b"\x89P")
    assert value == writer.Writeup(title="Aries", images=[image, image])
    assert value.images[0] is value.images[1]
    assert value.model_fields_set == {"title", "images"}
    again = Codec(StoredTypes()).encode(value, 0)
    assert again == json.loads(STORED.replace('["title", "images"]', '["images", "title"]'))


def test_what_earlier_versions_referred_to_is_found_at_its_place() -> None:
    text = "a" * 128
    value = read(json.dumps([{"$date": "2026-01-01"}, {"$tuple": [text, "b"]}, {"$type": "builtins:int"}, {"$ref": 3}]))
    assert value[3] is value[1][0]
    again = [{"$date": "2026-01-01"}, {"$tuple": [text, "b"]}, {"$type": "builtins:int"}, text, value[1]]
    again[-1] = {"$ref": 2}
    assert Codec(TYPES).encode([*value, value[1]], 0) == again


BOX_OF_KIND = """[{"tests.rooms.store.toys:Box": {"content": 1, "$kind": {"of": ["tests.rooms.store.toys:Box",
    {"annotated": ["builtins:int", ["a"]]}]}}}, [2], {"$ref": 3}]"""


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ('{"$dict": ["a", {"$ref": 0}]}', "{'a': {...}}"),
        ('{"tests.rooms.store.toys:Node": {"next": {"$ref": 0}, "value": 1}}', "Node(value=1, next=...)"),
        ('[{"tests.rooms.store.toys:Box": {"content": 1, "$more": ["a", ["b"]]}}, [2], {"$ref": 3}]',
         "[Box(content=1), [2], [2]]"),
        (BOX_OF_KIND, "[Box(content=1), [2], [2]]"),
        ('{"$text": "AO2ggHg="}', r"'\x00\ud800x'"),
        ('[{"$datetime": ["2026-01-01T00:00:00", {"pydantic": [0, 7200, 0]}]}]',
         str([datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))])),
        ('{"$type": {"typing": ["List", "builtins:int"]}}', "list[int]"),
        ('{"$type": {"typing": ["Union", "builtins:int", "builtins:NoneType"]}}', "int | None"),
    ],
)  # fmt: skip
def test_what_is_no_longer_written_so_is_read(row: str, value: str) -> None:
    assert repr(read(row)) == value


def test_new_fields_get_their_defaults(load: Callable[[str], Any]) -> None:
    load(WRITER.replace("data: bytes", "data: bytes\n        alt: str = 'none'") + "        draft: bool = True\n")
    value = read(STORED)
    assert (value.draft, value.images[0].alt) == (True, "none")
    assert value.model_fields_set == {"title", "images"}


def test_renamed_moved_and_changed_classes_read_what_they_once_wrote(load: Callable[[str], Any]) -> None:
    writer = load("""
        from dataclasses import dataclass, field
        from enum import StrEnum
        from pydantic import BaseModel, PrivateAttr
        from goalport.store import persistent

        def renamed(version, fields):
            return {"headline" if name == "title" else name: value for name, value in fields.items() if name != "at"}

        @persistent("agents.writer:Mood", version=2, upcast=lambda version, fields: {"name": "FINE"})
        class Feeling(StrEnum):
            FINE = "fine"

        @persistent("agents.writer:Image")
        @dataclass(slots=True)
        class Picture:
            data: bytes
            alt: str = "none"
            tags: list[str] = field(default_factory=list)

        @persistent("agents.writer:Writeup", version=3, upcast=renamed)
        class Article(BaseModel):
            headline: str
            images: list[Picture]
            mood: Feeling
            words: int = 0
            _seen: bool = PrivateAttr(default=True)
    """)
    value = read(STORED)
    picture = writer.Picture(b"\x89P")
    assert value == writer.Article(headline="Aries", images=[picture, picture], mood=writer.Feeling.FINE)
    assert value.images[0] is value.images[1]
    assert value.model_fields_set == {"headline", "images"}
    assert list(Codec(StoredTypes()).encode(value, 0)) == ["agents.writer:Writeup@3"]
    assert read('{"agents.writer:Mood@2": "FINE"}') is writer.Feeling.FINE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            ("title: str", "headline: str"),
            r'such field. Write @persistent\("agents.writer:Writeup", version=2, upcast=…\) .* that renames or drops',
        ),
        (
            ("title: str", "title: str\n        by: str"),
            r"Writeup.by cannot .* without this field, which has no default",
        ),
        (("data: bytes", "data: bytes\n        by: str"), r"agents.writer:Image.by cannot"),
        (("GOOD = 1", "BAD = 1\n    Mood.GOOD = Mood.BAD"), r"agents.writer:Mood.GOOD cannot .* no such member"),
        (
            ("class Image", "class Picture"),
            r"agents.writer:Image cannot .* no class of that name is imported. If it was",
        ),
        (("@dataclass(frozen=True)", ""), "agents.writer:Image cannot .* neither a dataclass"),
    ],
)
def test_a_change_that_needs_help_is_named_with_what_to_do(
    load: Callable[[str], Any], change: tuple[str, str], says: str
) -> None:
    source = WRITER.replace(*change).replace("Mood = Mood.GOOD", "object = None").replace("list[Image]", "list[object]")
    load(source)
    with pytest.raises(Unreadable, match=says):
        read(STORED)


@pytest.mark.parametrize(
    ("mark", "more", "says"),
    [
        (
            '@persistent("agents.writer:Image", version=2, upcast=leave)',
            "",
            r"Image cannot .*: upcast failed for version 1",
        ),
        (
            '@persistent("agents.writer:Image", version=2, upcast=fail)',
            "",
            r"Image cannot .*: upcast failed for version 1",
        ),
        ("", "alt: str = field(default_factory=fail)", r"Image\.alt cannot .*: its default failed"),
    ],
)
def test_whatever_the_code_of_an_author_raises_becomes_an_error_that_names_the_type(
    load: Callable[[str], Any], mark: str, more: str, says: str
) -> None:
    load(f"""
        from dataclasses import dataclass, field
        from goalport.store import persistent

        def fail(*_):
            raise RuntimeError("no")

        def leave(*_):
            raise SystemExit("no")

        {mark}
        @dataclass(frozen=True)
        class Image:
            data: bytes
            {more}
    """)
    with pytest.raises(Unreadable, match=rf"agents.writer:{says}.* \((RuntimeError|SystemExit): no\)"):
        read('{"agents.writer:Image": {"data": {"$bytes": "iVA="}}}')


def test_what_a_newer_program_wrote_is_refused_and_a_fault_in_upcast_is_named() -> None:
    with pytest.raises(Unreadable, match=r"written by version 4 of the class, and this program has version 3"):
        read('{"tests.point-3d@4": {"value": 1}}')
    assert read('{"tests.point-3d@2": {"value": 1}}') == toys.Kept(1)
    with pytest.raises(Unreadable, match=r"upcast failed for version 1 \(KeyError: 'gone'\)"):
        read('{"tests.faulty": {"value": 1}}')


@pytest.mark.parametrize(
    "row",
    [
        '{"$ref": [7, 0]}', '{"$ref": 0}', '{"$ref": "x"}', '{"$date": "soon"}', '{"$decimal": 1}', '{"$nothing": 1}',
        '{"$date": "2026-01-01", "$time": 1}', "{}",
        '{"$datetime": ["2026-01-01T00:00:00", {"zone": "../../etc/passwd"}]}',
        '{"$type": {"typing": "Optional"}}', '{"$type": {"of": ["builtins:int", "builtins:int"]}}', '{"$type": 1}',
        '{"$type": {"typing": ["cast", "builtins:int"]}}', '{"$dict": ["a"]}', '{"$int": "zz"}', '{"$text": "é"}',
        '{"$secret_text": "aa"}', '{"tests.rooms.store.toys:Colour": {"a": 1}}', '{"tests.rooms.store.toys:Raw": "a"}',
        '{"tests.rooms.store.toys:Raw@x": {}}', '{"$set": [{"$dict": []}]}', '{"$defaultdict": ["subprocess:Popen"]}',
    ],
)  # fmt: skip
def test_data_that_is_no_value_is_refused(row: str) -> None:
    with pytest.raises(Unreadable):
        read(row)


@pytest.mark.parametrize(
    "name",
    [
        "os:system", "builtins:eval", "subprocess:Popen", "tests.rooms.store.toys:stories",
        "tests.rooms.store.toys:sys",
        "tests.rooms.store.toys:Client", "tests.rooms.store.toys:Resource", "tests.rooms.store.toys:Raw.__init__",
        "tests.rooms.store.toys:T", "antigravity:fly", "tests.rooms.store.toys", "", ":", "tests.rooms.store.toys:",
    ],
)  # fmt: skip
def test_a_name_reaches_nothing_but_classes_with_fields(name: str) -> None:
    with pytest.raises(Unreadable):
        read(json.dumps({name: {"args": ["touch", "/tmp/never"]}}))
    assert "antigravity" not in sys.modules


def test_a_name_runs_no_code_of_a_module() -> None:
    module = types.ModuleType("lazy")
    asked: list[str] = []
    vars(module)["__getattr__"] = asked.append
    with pytest.raises(Unreadable):
        TypeNames({"lazy": module}).find("lazy:Anything")
    assert not asked


def test_a_class_is_named_from_the_workspace_or_by_its_public_module(load: Callable[[str], Any]) -> None:
    names, writer = TypeNames(), load(WRITER)
    assert names.name_of(writer.Writeup) == "agents.writer:Writeup"
    assert names.name_of(WaitFor) == "goalport.domain.wait_for:WaitFor"
    installed = types.ModuleType("agents.tool")
    vars(installed)["Tool"] = found = type("Tool", (), {"__module__": "agents.tool"})
    names = TypeNames({"agents.tool": installed})
    assert names.name_of(found) == "/agents.tool:Tool"
    assert names.find("/agents.tool:Tool") is found
    with pytest.raises(Unreadable):
        names.find("agents.tool:Tool")


def test_two_classes_of_one_persistent_name_are_both_named() -> None:
    one, other = types.ModuleType("one"), types.ModuleType("other")
    for each in (one, other):
        vars(each)["Made"] = persistent("made")(type("Made", (), {"__module__": each.__name__}))
    with pytest.raises(Unreadable, match="one: Made and other: Made have this persistent name"):
        TypeNames({"one": one, "other": other}).find("made")


@pytest.mark.parametrize(("name", "version"), [("$date", 1), ("a@2", 1), ("", 1), ("made", 0), ("made", True)])
def test_a_name_or_version_that_cannot_be_stored_is_refused_where_it_is_written(name: str, version: int) -> None:
    with pytest.raises(DeclarationError, match="@persistent on"):
        persistent(name, version=version)(toys.Client)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (toys.Lookup, r"Lookup\.find \(a Callable\) cannot be stored: code is not stored"),
        (list[toys.Lookup], r"list\[Lookup\]\[…\]\.find"),
        (toys.Client | None, "a Client cannot be stored: it is neither"),
        (tuple[int, toys.Client], r"tuple\[int, Client\]\[1\] \(a Client\)"),
        (toys.Box[toys.Client], r"Box\[Client\]\.content \(a Client\)"),
        (toys.Login, r"Login\.password \(a SecretStr\) cannot .* not written in clear"),
        (toys.make_local(), "a Local cannot be stored: it is defined inside a function"),
        (Iterator[int], "an iterator ends with the program"),
        (threading.Event, "an event ends with the program"),
        (types.ModuleType, "a module ends with the program"),
        (toys.Resource, "it has __del__"),
        (toys.Options, r"Options\.client \(a Client\)"),
    ],
)
def test_a_declared_type_whose_objects_cannot_be_written_is_named_without_an_object(kind: Any, says: str) -> None:
    reason = storable(kind, TYPES)
    assert reason is not None
    assert re.search(says, reason), reason


@pytest.mark.parametrize(
    "kind",
    [
        toys.Raw, toys.Page[toys.Raw], list[toys.Node], dict[str, int] | None, toys.Client | toys.Raw, toys.Live,
        Any, object,
        toys.Counted, toys.Never, toys.Stage, WaitFor[toys.Raw], Mapping[str, datetime], toys.UserId,
        toys.Colour, type[int],
        toys.Vertex, toys.Shape, toys.Drawing, int, bool,
        AwareDatetime, PastDate, IPvAnyAddress,
    ],
)  # fmt: skip
def test_a_declared_type_whose_objects_may_be_written_passes(kind: Any) -> None:
    assert storable(kind, TYPES) is None


def test_a_secret_may_be_written_where_there_is_a_key() -> None:
    assert storable(toys.Login, TYPES, sealed=True) is None


def test_a_class_that_no_longer_keeps_what_it_did_says_so() -> None:
    with pytest.raises(Unreadable, match=r"Raw.note cannot .* the class allows no extra fields now"):
        read('{"tests.rooms.store.toys:Raw": {"text": "a", "at": 1, "$extra": ["note", 1]}}')
    with pytest.raises(Unreadable, match="it has __del__"):
        read('{"tests.rooms.store.toys:Resource": {"path": "/"}}')


def test_the_classes_of_content_blocks_are_found_before_goalport_needs_them() -> None:
    code = """
        import json, sys
        from goalport.store import Codec, StoredTypes
        assert "mcp_types" not in sys.modules
        row = '{"mcp_types:TextContent": {"type": "text", "text": "a", "annotations": null, "$unset": ["meta"]}}'
        print(type(Codec(StoredTypes()).decode(json.loads(row))).__name__)
    """
    done = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "TextContent"


def test_a_plain_class_of_several_parts_is_read_before_the_program_made_one() -> None:
    row = '{"tests.rooms.store.toys:Never": {"raw": {"tests.rooms.store.toys:Raw": {"text": "a", "at": null}}}}'
    assert read(row).raw == toys.Raw(text="a")


def test_a_time_keeps_its_zone() -> None:
    assert read('{"$datetime": ["2026-01-01T00:00:00", "UTC"]}') == datetime(2026, 1, 1, tzinfo=UTC)
    berlin = read('{"$datetime": ["2026-10-25T02:30:00", {"zone": "Europe/Berlin"}, 1]}')
    assert (str(berlin.tzinfo), berlin.fold, berlin.utcoffset().total_seconds()) == ("Europe/Berlin", 1, 3600)
