"""The front end through which a person talks: what it sends to a chatbot with messages, and the tools that it offers.

An action of a chatbot takes a `FrontEnd` as a parameter, and shows it to a model as a reference. A tool of a front end
runs in the person's application: the action waits with a question, which the door answers with the result. Below:
processes. Above: the doors that have front ends, such as AG-UI.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from goalport.agents.domain import WaitFor
from goalport.base.errors import Declined
from goalport.runtime.process import ActionContext
from goalport.store import persistent
from goalport.tools import Tool, ToolResult
from goalport.tools.naming import reference_prefix


@persistent("goalport.chat:OfferedTool")
@dataclass(frozen=True)
class OfferedTool:
    """A tool that a front end offers."""

    name: str
    description: str
    schema: str
    """The JSON Schema of its arguments, as JSON."""


@persistent("goalport.chat:FrontEndCall")
@dataclass(frozen=True)
class FrontEndCall(WaitFor[str]):
    """Asks a front end to call a tool of its own. The answer is the result, as text."""

    tool: str = ""
    arguments: str = "{}"
    """The arguments, as JSON."""

    @property
    def response_type(self) -> object:
        return str

    def accept(self, response: str) -> str:
        return response


@persistent("goalport.chat:A2aMessage")
@dataclass(frozen=True)
class A2aMessage:
    """The message of another agent, over A2A, that began the process. An action takes `A2aMessage | None`."""

    message_id: str
    context_id: str
    """The id by which the other agent groups its tasks."""
    content: str
    """The message as the protocol has it in JSON, without the bytes of files, and without parts that hold secrets."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the message."""
        return json.loads(self.content).get("metadata", {})


@persistent("goalport.chat:FrontEnd")
@dataclass(frozen=True)
class FrontEnd:
    """What the front end of a person sends to the chatbot: `ai.with_reference(front_end)` shows it to a model.

    The model reads the context, and may call the tools of the front end. Other clients have no front end, so an action
    takes `FrontEnd | None`.
    """

    context: tuple[tuple[str, str], ...] = ()
    """What the front end says about the place where the person is: descriptions, and their values."""
    offers: tuple[OfferedTool, ...] = ()
    """The tools that it offers."""
    told: str = "{}"
    """Its state and its properties, as JSON."""

    @property
    def name(self) -> str:
        """What a model calls it."""
        return "front end"

    @property
    def description(self) -> str:
        """What it is."""
        return "The application in which the person is"

    @classmethod
    def of(
        cls,
        context: Sequence[tuple[str, str]] = (),
        offers: Sequence[OfferedTool] = (),
        *,
        state: object = None,
        properties: object = None,
    ) -> "FrontEnd":
        """A front end. `state` and `properties` are values that JSON can express."""
        return cls(tuple(context), tuple(offers), json.dumps({"state": state, "properties": properties}))

    @property
    def state(self) -> Any:
        """The state that the front end shares, as it was when the run began."""
        return json.loads(self.told).get("state")

    @property
    def properties(self) -> Any:
        """Further values that an application passes on."""
        return json.loads(self.told).get("properties")

    @property
    def tool_names(self) -> frozenset[str]:
        """The names by which a model calls its tools."""
        return frozenset(f"{reference_prefix(self.name)}{each.name}" for each in self.offers)

    def notes(self) -> str:
        """The context, for a model."""
        return "\n".join(f"{description}: {value}" for description, value in self.context)

    def tools(self) -> Sequence[Tool]:
        """The tools of the front end. A call waits until the front end has answered it."""
        return [
            Tool(each.name, each.description, json.loads(each.schema), partial(_call, each.name), asks_people=True)
            for each in self.offers
        ]


async def _call(tool: str, arguments: Mapping[str, object]) -> ToolResult:
    written = json.dumps(arguments, ensure_ascii=False)
    call = FrontEndCall(f"The front end is to call {tool} with {written}. What is the result?", tool, written)
    try:
        return ToolResult.of_text(await ActionContext.current().ask(call))
    except Declined as no:
        return ToolResult.of_error(f"The front end did not call it: {no}")
