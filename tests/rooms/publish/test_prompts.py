from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PromptReference, ResourceTemplateReference, TextContent
from pydantic import BaseModel, Field

from goalport import Export, achieves_goal, action, agent
from tests.rooms.serve.served import ERAS, served


class Tone(Enum):
    GLAD = "glad"
    SAD = "sad"


class Order(BaseModel):
    dish: str = Field(description="What to eat")
    guests: int
    tone: Tone = Tone.GLAD
    size: Literal["small", "large"] | None = None
    spicy: bool = False
    table: Literal[1, 2] = 1


class Meal(BaseModel):
    content: str


class Branch(BaseModel):
    branches: list["Branch"] = []


@agent(description="Grows")
class Gardener:
    @achieves_goal(
        description="A meal from a tree", export=Export(remote=True, name="grow", starting_input_types=[Branch])
    )
    @action
    async def grow(self, branch: Branch) -> Meal:
        return Meal(content=str(len(branch.branches)))


@agent(description="Cooks")
class Cook:
    @achieves_goal(
        description="A meal for guests", export=Export(remote=True, name="cook", starting_input_types=[Order])
    )
    @action
    async def cook(self, order: Order) -> Meal:
        return Meal(content=order.dish)


@pytest.mark.parametrize("era", ERAS)
async def test_a_prompt_has_an_argument_for_each_field(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Cook()) as server, server.client(era) as client:
        prompt = (await client.list_prompts()).prompts[0]
    assert prompt.name == "cook"
    assert prompt.description == "A meal for guests"
    arguments = {each.name: (each.description, each.required) for each in prompt.arguments or ()}
    assert arguments["dish"] == ("What to eat", True)
    assert arguments["guests"] == ("Guests (integer as JSON)", True)
    assert arguments["spicy"] == ("Spicy (boolean as JSON)", False)


@pytest.mark.parametrize("era", ERAS)
async def test_its_message_names_the_goal_its_description_and_the_values(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Cook()) as server, server.client(era) as client:
        result = await client.get_prompt("cook", {"dish": "soup", "guests": "4", "spicy": "true", "size": ""})
    (message,) = result.messages
    assert message.role == "user"
    assert isinstance(message.content, TextContent)
    assert message.content.text == (
        "Reach the goal cook: A meal for guests\n"
        "Call the tool cook once with these values:\n"
        "- dish: soup\n- guests: 4\n- spicy: true"
    )


@pytest.mark.parametrize("era", ERAS)
async def test_what_cannot_be_read_stands_in_the_message_as_it_came(tmp_path: Path, era: str) -> None:
    given = {"dish": "$1", "guests": "$2", "tone": "$3", "spicy": "[" * 100_000}
    async with served(tmp_path, Cook()) as server, server.client(era) as client:
        (message,) = (await client.get_prompt("cook", given)).messages
        refused = await client.call_tool("cook", dict(given))
    assert isinstance(message.content, TextContent)
    for name, value in given.items():
        assert f"- {name}: {value}" in message.content.text
    assert refused.is_error


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"dish": "soup"}, "guests: required, but missing"),
        ({"dish": "soup", "guests": "4", "dessert": "cake"}, "dessert: unknown"),
    ],
)
async def test_arguments_that_there_are_not_and_missing_ones_are_refused(
    tmp_path: Path, era: str, given: dict[str, str], told: str
) -> None:
    async with served(tmp_path, Cook()) as server, server.client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt("cook", given)
    assert caught.value.code == INVALID_PARAMS
    assert told in caught.value.message


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("argument", "typed", "values"),
    [
        ("tone", "", ["glad", "sad"]),
        ("tone", "S", ["sad"]),
        ("size", "", ["small", "large"]),
        ("spicy", "t", ["true"]),
        ("table", "", ["1", "2"]),
        ("dish", "", []),
        ("unknown", "", []),
    ],
)
async def test_arguments_of_few_values_are_completed(
    tmp_path: Path, era: str, argument: str, typed: str, values: list[str]
) -> None:
    async with served(tmp_path, Cook()) as server, server.client(era) as client:
        reference = PromptReference(type="ref/prompt", name="cook")
        completion = (await client.complete(reference, {"name": argument, "value": typed})).completion
    assert completion.values == values
    assert completion.total == len(values)


async def test_no_more_than_a_hundred_values_are_offered(tmp_path: Path) -> None:
    many: Any = Literal[tuple(f"v{number}" for number in range(150))]

    class Pick(BaseModel):
        value: many  # pyright: ignore[reportInvalidTypeForm]

    async def pick(self: object, given: Pick) -> Meal:
        return Meal(content="x")

    pick.__annotations__ = {"given": Pick, "return": Meal}
    goal = achieves_goal(description="A pick", export=Export(remote=True, name="pick", starting_input_types=[Pick]))
    picker = agent(name="Picker", description="Picks")(type("Picker", (), {"pick": goal(action(pick))}))()
    async with served(tmp_path, picker) as server, server.client() as client:
        reference = PromptReference(type="ref/prompt", name="pick")
        completion = (await client.complete(reference, {"name": "value", "value": "v"})).completion
    assert len(completion.values) == 100
    assert completion.has_more


@pytest.mark.parametrize("era", ERAS)
async def test_the_names_of_agents_are_completed_in_resource_templates(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Cook()) as server, server.client(era) as client:
        reference = ResourceTemplateReference(type="ref/resource", uri="goalport://agents/{name}")
        assert (await client.complete(reference, {"name": "name", "value": "co"})).completion.values == ["Cook"]
        other = ResourceTemplateReference(type="ref/resource", uri="goalport://processes/{id}")
        assert (await client.complete(other, {"name": "id", "value": ""})).completion.values == []


@pytest.mark.parametrize(
    "reference",
    [
        PromptReference(type="ref/prompt", name="bake"),
        ResourceTemplateReference(type="ref/resource", uri="goalport://cooks/{name}"),
    ],
    ids=["prompt", "template"],
)
async def test_completing_for_what_there_is_not_is_a_protocol_error(
    tmp_path: Path, reference: PromptReference | ResourceTemplateReference
) -> None:
    async with served(tmp_path, Cook()) as server, server.client() as client:
        with pytest.raises(MCPError) as caught:
            await client.complete(reference, {"name": "x", "value": ""})
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("text", ["[" * 900_000, '[{"branches":' * 150 + "[]" + "}]" * 150], ids=["endless", "deep"])
async def test_json_that_no_call_could_hold_stands_in_the_message_and_is_no_traceback(
    tmp_path: Path, era: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, Gardener()) as server, server.client(era) as client:
        (message,) = (await client.get_prompt("grow", {"branches": text})).messages
    assert isinstance(message.content, TextContent)
    assert f"- branches: {text[:10]}" in message.content.text
    assert not [record for record in caplog.records if record.exc_info]
