from pathlib import Path
from typing import Any, Literal, cast

import jsonschema
from pydantic import BaseModel, Field, RootModel

from goalport import Export, UserInput, achieves_goal, action, agent
from goalport.serve.publication import Publication
from tests.rooms.serve.served import published, tool_of


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


def published_from(root: Path, start: type, output: type = Letter) -> Publication:
    async def write(self: object, given: object) -> object:
        return given

    write.__annotations__ = {"given": start, "return": output}
    goal = achieves_goal(description="A letter", export=Export(remote=True, name="write", starting_input_types=[start]))
    return published(
        root, agent(name="Writer", description="Writes")(type("Writer", (), {"write": goal(action(write))}))()
    )


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
from goalport.serve import raw_tool

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
