"""Agents that ask people, and what their clients do with a handle. No test is in here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestParams, ElicitRequestURLParams, ElicitResult, ErrorData
from pydantic import BaseModel, Field

from goalport import ActionContext, Export, UserInput, WaitFor, achieves_goal, action, agent, run_subagent
from goalport.server.publish.handle import HANDLE
from tests.rooms.serve.served import Served

_HANDLE: Any = Draft202012Validator(HANDLE)


class Topping(BaseModel):
    name: Literal["ham", "cheese", "mushrooms"] = Field(description="What goes on top")
    portions: int = Field(1, ge=1)


class Order(BaseModel):
    size: int


class Pizza(BaseModel):
    content: str


@agent(description="Makes pizza as it is wanted")
class Pizzeria:
    @action
    def ask(self, order: Order) -> WaitFor[Topping]:
        return WaitFor.form_submission(f"What shall be on a pizza of {order.size} cm?", Topping)

    @achieves_goal(description="A pizza", export=Export(remote=True, name="order_pizza"))
    def bake(self, order: Order, topping: Topping) -> Pizza:
        return Pizza(content=f"{order.size} cm with {topping.portions} {topping.name}")


class Payment(BaseModel):
    euros: int


class Receipt(BaseModel):
    content: str


@agent(description="Pays")
class Cashier:
    @action
    def ask(self, payment: Payment) -> WaitFor[UserInput]:
        return WaitFor.confirmation(UserInput(f"paid {payment.euros}"), f"Pay {payment.euros} euros?")

    @achieves_goal(description="A receipt", export=Export(remote=True, name="pay"))
    def pay(self, paid: UserInput) -> Receipt:
        return Receipt(content=paid.content)


@dataclass
class Gate:
    """Lets work go on when the test says so, and tells the test that it has begun."""

    begun: anyio.Event = field(default_factory=anyio.Event)
    opened: anyio.Event = field(default_factory=anyio.Event)

    async def passed(self, context: ActionContext) -> None:
        context.progress("at the gate")
        self.begun.set()
        await self.opened.wait()


@agent(description="Takes its time", name="Slow")
class Slow:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    @achieves_goal(description="A pizza at last", export=Export(remote=True, name="bake", long=True, wait_budget=0.05))
    async def bake(self, order: Order, context: ActionContext) -> Pizza:
        await self.gate.passed(context)
        return Pizza(content="at last")


@agent(description="Orders elsewhere")
class Waiter:
    @achieves_goal(description="A receipt", export=Export(remote=True, name="serve_guest", long=True))
    async def serve(self, order: Order) -> Receipt:
        return Receipt(content=f"Served: {(await run_subagent('Pizzeria', Pizza, order)).content}")


async def call(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    with anyio.fail_after(60):
        result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    return result


def handle_of(server: Served, tool: str, result: CallToolResult) -> dict[str, Any]:
    """The handle in a result, which has to be what was published."""
    assert not result.is_error, result
    handle: Any = result.structured_content
    _HANDLE.validate(handle)
    schema = server.state.publication.tools[tool].tool.output_schema
    if schema is not None:
        published: Any = Draft202012Validator(schema)
        published.validate(handle)
    return handle


@dataclass(frozen=True)
class Answering:
    """A person who answers the forms that a client shows, one after another, and what was asked."""

    answers: list[Mapping[str, Any] | ErrorData | str]
    asked: list[str] = field(default_factory=list[str])
    schemas: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])

    @classmethod
    def with_(cls, *answers: Mapping[str, Any] | ErrorData | str) -> "Answering":
        """The fields of a form, `decline`, `cancel`, or an error in place of an answer, in this order."""
        return cls([*answers])

    async def __call__(
        self, context: ClientRequestContext | None, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        assert params.mode == "form"
        self.asked.append(params.message)
        self.schemas.append(params.requested_schema)
        match self.answers.pop(0):
            case ErrorData() as error:
                return error
            case "decline" | "cancel" as action:
                return ElicitResult(action=action)
            case content:
                return ElicitResult.model_validate({"action": "accept", "content": content})


class Visiting:
    """A person who opens each address and says that it is done there, and what was asked."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, _: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.seen.append(params.url if isinstance(params, ElicitRequestURLParams) else params.message)
        content = None if isinstance(params, ElicitRequestURLParams) else {"confirmed": True}
        return ElicitResult.model_validate({"action": "accept", "content": content})
