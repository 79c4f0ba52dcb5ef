from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import jsonschema
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel

from goalport import Export, UserInput, achieves_goal, action, agent
from goalport.server.publish.portability import portable
from goalport.server.publish.publication import Publication
from tests.rooms.serve.served import published, served, text_of, tool_of


class Address(BaseModel):
    street: str = Field(description="Street and number")


class Person(BaseModel):
    home: Address = Field(description="Where they live")
    work: Address | None = None


class Branch(BaseModel):
    name: str
    children: list["Branch"] = []


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str]


class Owner(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind")


class Either(RootModel[Cat | Dog]):
    pass


class Letter(BaseModel):
    content: str
    pages: int = Field(default=1, serialization_alias="pageCount")


def writer_from(start: type, output: type = Letter) -> object:
    async def write(self: object, given: object) -> object:
        return given

    write.__annotations__ = {"given": start, "return": output}
    goal = achieves_goal(description="A letter", export=Export(remote=True, name="write", starting_input_types=[start]))
    return agent(name="Writer", description="Writes")(type("Writer", (), {"write": goal(action(write))}))()


def published_from(root: Path, start: type, output: type = Letter) -> Publication:
    return published(root, writer_from(start, output))


def input_of(root: Path, start: type) -> dict[str, Any]:
    return tool_of(published_from(root, start), "write").input_schema


def output_of(root: Path, output: type) -> dict[str, Any] | None:
    """The first member of what is published: the others are what may come in its place."""
    schema: Any = tool_of(published_from(root, Address, output), "write").output_schema
    return schema and schema["anyOf"][0]


def words_of(schema: object) -> set[str]:
    if isinstance(schema, dict):
        inner = cast("dict[str, object]", schema)
        return {*inner, *(word for each in inner.values() for word in words_of(each))}
    if isinstance(schema, list):
        return {word for each in cast("list[object]", schema) for word in words_of(each)}
    return set()


def test_references_are_written_out_with_what_stood_beside_them(tmp_path: Path) -> None:
    schema = input_of(tmp_path, Person)
    assert not {"$ref", "$defs", "$schema"} & words_of(schema)
    assert schema["properties"]["home"]["description"] == "Where they live"
    assert schema["properties"]["home"]["properties"]["street"]["description"] == "Street and number"


def test_a_type_that_contains_itself_keeps_its_reference_and_an_object_at_the_root(tmp_path: Path) -> None:
    schema = input_of(tmp_path, Branch)
    assert schema["type"] == "object"
    assert "$ref" not in schema
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Branch"}
    jsonschema.validate({"name": "a", "children": [{"name": "b"}]}, schema)


def test_a_recursive_schema_is_warned_about_with_the_clients_that_lose_it(tmp_path: Path) -> None:
    assert any("$ref" in each and "LM Studio" in each for each in published_from(tmp_path, Branch).warnings)


def test_alternatives_lose_the_mapping_that_only_some_readers_know(tmp_path: Path) -> None:
    schema = input_of(tmp_path, Owner)
    assert "discriminator" not in words_of(schema)
    assert [each["properties"]["kind"]["const"] for each in schema["properties"]["pet"]["oneOf"]] == ["cat", "dog"]


def test_no_combinator_stands_at_the_root_of_an_input(tmp_path: Path) -> None:
    schema = input_of(tmp_path, Either)
    assert schema["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf"} & schema.keys()
    assert list(schema["properties"]) == ["either"]


def test_the_timestamp_of_a_users_words_is_the_frameworks_business(tmp_path: Path) -> None:
    schema = input_of(tmp_path, UserInput)
    assert list(schema["properties"]) == ["content"]
    assert schema["required"] == ["content"]
    assert schema["properties"]["content"]["description"]


def test_a_property_called_like_a_keyword_stays_a_property(tmp_path: Path) -> None:
    class Odd(BaseModel):
        title: str
        properties: list[int]

    schema = input_of(tmp_path, Odd)
    assert schema["properties"]["title"]["type"] == "string"
    assert schema["properties"]["properties"]["items"] == {"type": "integer"}


def test_a_property_that_the_anthropic_api_refuses_is_warned_about(tmp_path: Path) -> None:
    class Odd(BaseModel):
        value: int = Field(alias="the value")

    assert any("'the value'" in each and "Anthropic" in each for each in published_from(tmp_path, Odd).warnings)


def test_an_output_schema_says_what_is_written_not_what_is_read(tmp_path: Path) -> None:
    schema = output_of(tmp_path, Letter)
    assert schema is not None
    assert list(schema["properties"]) == ["content", "pageCount"]


def test_an_output_that_is_no_object_is_published_as_its_result(tmp_path: Path) -> None:
    schema = output_of(tmp_path, list[Address])
    assert schema is not None
    assert schema["type"] == "object"
    assert schema["required"] == ["result"]
    assert schema["properties"]["result"]["type"] == "array"


def test_an_output_of_several_objects_has_an_object_at_the_root_all_the_same(tmp_path: Path) -> None:
    schema = output_of(tmp_path, Either)
    assert schema is not None
    assert schema["type"] == "object"
    assert len(schema["oneOf" if "oneOf" in schema else "anyOf"]) == 2


RAW = """
from mcp_types import Tool
from goalport.server.doors.mcp import raw_tool

async def handle(context, params):
    return {}

def tool(name, **schema):
    return raw_tool(Tool(name=name, description="d", **schema), handle)

combined = tool("combined", input_schema={"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})
listed = tool("listed", input_schema={"type": "object"}, output_schema={"type": "array"})
rootless = tool("rootless", input_schema={"properties": {}})
wordy = raw_tool(Tool(name="wordy", description="d" * 2000, input_schema={"type": "object"}), handle)
"""


def test_raw_tools_are_published_as_they_are_and_warned_about(tmp_path: Path) -> None:
    publication = published(tmp_path, files={"tools/raw.py": RAW})
    assert tool_of(publication, "combined").input_schema["anyOf"]
    for name, client in (
        ("combined", "Claude Code"),
        ("listed", "TypeScript"),
        ("rootless", "no client"),
        ("wordy", "OpenAI"),
    ):
        assert any(each.startswith(f"{name}:") and client in each for each in publication.warnings), name


def test_more_tools_than_hosts_show_are_warned_about(tmp_path: Path) -> None:
    functions = "\n".join(
        f"@tool(export=True)\ndef f{n}(a: int) -> int:\n    '''F.'''\n    return a" for n in range(45)
    )
    publication = published(tmp_path, files={"tools/many.py": f"from goalport import tool\n{functions}"})
    assert any("46 tools" in each and "Cursor" in each for each in publication.warnings)


class Corner(NamedTuple):
    x: int
    label: str


class Shape(BaseModel):
    size: tuple[int, int]
    place: tuple[float, str]
    corner: Corner
    many: tuple[int, ...]
    anything: list[Any]


def arrays_in(schema: object) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [each for inner in cast("list[object]", schema) for each in arrays_in(inner)]
    if not isinstance(schema, dict):
        return []
    node = cast("dict[str, Any]", schema)
    within = [each for inner in node.values() for each in arrays_in(inner)]
    return [node, *within] if node.get("type") == "array" else within


def test_each_array_has_items_and_a_tuple_its_bounds(tmp_path: Path) -> None:
    given = input_of(tmp_path, Shape)
    for schema in (given, output_of(tmp_path, Shape)):
        arrays = arrays_in(schema)
        assert len(arrays) == 5
        assert all("items" in each and "prefixItems" not in each for each in arrays)
    assert given["properties"]["size"] == {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
    assert given["properties"]["place"]["items"] == {"anyOf": [{"type": "number"}, {"type": "string"}]}


async def test_what_stands_in_a_place_of_a_tuple_is_still_checked(tmp_path: Path) -> None:
    right: dict[str, Any] = {"size": [1, 2], "place": [0.5, "a"], "corner": [1, "b"], "many": [1], "anything": []}
    async with served(tmp_path, writer_from(Shape, Shape)) as server, server.client() as client:
        assert not (await client.call_tool("write", right)).is_error
        wrong = await client.call_tool("write", right | {"place": ["a", 0.5]})
    assert wrong.is_error
    assert "place[0]" in text_of(wrong) or "place.0" in text_of(wrong)


UNLISTED = """
from mcp_types import Tool
from goalport.server.doors.mcp import raw_tool

async def handle(context, params):
    return {}

pair = raw_tool(
    Tool(name="pair", description="A", input_schema={"type": "object", "properties": {"of": {"type": "array"}}}), handle
)
"""


def test_an_array_without_items_of_a_raw_tool_is_warned_about(tmp_path: Path) -> None:
    warnings = published(tmp_path, files={"tools/raw.py": UNLISTED}).warnings
    assert any("pair: an array in its input schema has no items; VS Code" in each for each in warnings)


MIRRORED = """
from mcp.shared.inbound import X_MCP_HEADER_KEY
from mcp_types import Tool
from goalport.server.doors.mcp import raw_tool

async def handle(context, params):
    return {}

region = {"type": "object", "properties": {"region": {"type": "string", X_MCP_HEADER_KEY: "Region"}}}
near = raw_tool(Tool(name="near", description="A", input_schema=region), handle)
far = raw_tool(Tool(name="far", description="A", input_schema={"type": "object"}), handle)
"""


def test_the_tools_whose_arguments_clients_repeat_in_headers_are_known(tmp_path: Path) -> None:
    publication = published(tmp_path, files={"tools/raw.py": MIRRORED})
    assert [*publication.mirrored] == ["near"]


class Picture(BaseModel):
    data: bytes


class Encoded(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    data: bytes


@pytest.mark.parametrize("output", [bytes, Picture, list[bytes]])
def test_bytes_that_would_be_written_as_text_are_refused_with_what_to_give_instead(tmp_path: Path, output: Any) -> None:
    found = published_from(tmp_path, Address, output)
    assert "write" not in found.tools
    assert any("EmbeddedResource, in base64 with their media type" in each for each in found.problems)


def test_functions_that_return_bytes_are_not_published_either(tmp_path: Path) -> None:
    made = "from goalport import tool\n@tool(export=True)\ndef pixel() -> bytes:\n    'Draw.'\n    return b'\\xff'\n"
    found = published(tmp_path, files={"tools/pixel.py": made})
    assert "pixel" not in found.tools
    assert any("EmbeddedResource, in base64 with their media type" in each for each in found.problems)


def test_bytes_that_their_model_writes_in_base64_are_published(tmp_path: Path) -> None:
    assert output_of(tmp_path, Encoded) is not None


def test_references_that_double_a_schema_again_and_again_stay_references() -> None:
    doubling = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    written = portable({"$defs": {**doubling, "d40": {"type": "object"}}, "$ref": "#/$defs/d0"})
    assert written["$defs"].keys() == {*doubling, "d40"}
    assert written["allOf"] == [{"$ref": "#/$defs/d1"}] * 2
