"""The OpenAPI document describes every path and every published goal, and follows what is published."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel

from goalport import Export, achieves_goal, agent
from tests.rooms.rest.documented import Documented
from tests.rooms.rest.web import Web, web
from tests.rooms.serve.askers import Cashier, Gate, Pizzeria, Slow, Waiter


class Tree(BaseModel):
    name: str
    branches: list["Tree"] = []


@agent(description="Prunes")
class Gardener:
    @achieves_goal(description="A smaller tree", export=Export(remote=True, name="prune"))
    def prune(self, tree: Tree) -> list[Tree]:
        return tree.branches

    @achieves_goal(description="Nothing for strangers")
    def burn(self, tree: Tree) -> str:
        return "ash"


@agent(description="Starts from nothing")
@dataclass
class Clock:
    ticks: list[int] = field(default_factory=list[int])

    @achieves_goal(description="The time", export=Export(remote=True, name="tell_time"))
    def tell(self) -> str:
        return "noon"


async def document_of(server: Web) -> dict[str, Any]:
    return (await server.http.get("/openapi.json")).json()


@pytest.mark.parametrize(
    "agents", [(), (Gardener(),), (Gardener(), Clock(), Pizzeria(), Cashier(), Slow(Gate()), Waiter())], ids=len
)
async def test_the_document_is_valid(tmp_path: Path, agents: tuple[object, ...]) -> None:
    async with web(tmp_path, *agents) as server:
        OpenAPIV31SpecValidator(await document_of(server)).validate()


async def test_the_input_and_the_output_of_each_published_goal_are_described(tmp_path: Path) -> None:
    async with web(tmp_path, Gardener(), Clock()) as server:
        document = await document_of(server)
        schemas = document["components"]["schemas"]
        assert schemas["prune.input"]["properties"].keys() == {"name", "branches"}
        assert schemas["prune.result"]["type"] == "array"
        assert schemas["tell_time.result"]["type"] == "string"
        assert "burn" not in str(document)

        documented = Documented(document)
        start = {"$ref": "#/components/schemas/Start"}
        twig: dict[str, Any] = {"name": "twig", "branches": []}
        bodies: list[tuple[dict[str, Any], int]] = [
            ({"goal": "prune", "input": {"name": "oak", "branches": [twig]}}, 200),
            ({"goal": "prune", "bindings": {"tree": {"name": "oak"}}, "wait": 20}, 200),
            ({"goal": "prune", "input": {"name": "oak", "branches": [{"branches": []}]}}, 422),
            ({"goal": "prune"}, 422),
            ({"goal": "burn", "input": {"name": "oak"}}, 422),
            ({"agent": "Clock"}, 200),
            ({"agent": "Clock", "wait": "long"}, 422),
        ]
        for body, status in bodies:
            assert bool(documented.errors(start, body)) == (status == 422), body
            assert (await server.http.post("/api/v1/process", json=body)).status_code == status


async def test_what_is_deployed_is_listed(tmp_path: Path) -> None:
    async with web(tmp_path, Gardener(), Pizzeria()) as server:
        info = (await server.http.get("/api/v1/platform-info")).json()
        lists: dict[str, Any] = {}
        for name, path in info["links"].items():
            found = (await server.http.get(path)).json()
            assert len(found[name]) == info["counts"][name]
            lists |= found
        assert [each["name"] for each in lists["agents"]] == ["Gardener", "Pizzeria"]
        assert {each["goal"]: each["tools"] for each in lists["goals"]} == {
            "Gardener.prune": ["prune"],
            "Gardener.burn": [],
            "Pizzeria.bake": ["order_pizza"],
        }
        assert {each["name"] for each in lists["actions"] if each["agent"] == "Pizzeria"} == {
            "Pizzeria.ask",
            "Pizzeria.bake",
        }
        assert (await server.http.get("/api/v1/platform-info?verbose=1")).status_code == 422


async def test_the_document_follows_what_is_published(tmp_path: Path) -> None:
    async with web(tmp_path, Pizzeria()) as server:
        assert "tell_time.result" not in (await document_of(server))["components"]["schemas"]
        server.platform.deploy(Clock())
        await server.publisher.republish("tools")
        assert "tell_time.result" in (await document_of(server))["components"]["schemas"]
