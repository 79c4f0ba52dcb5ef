"""What is a model at this door: each chatbot, and each published goal that can be started from a sentence.

A caller is shown those that it may use. Above: the handlers, which find the one that a request names.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from goalport.base.words import offer
from goalport.runtime.chat import AgentProcessChatbot
from goalport.runtime.process import AgentProcess
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.publication import Scopes
from goalport.server.web.endpoint import HttpDoor
from goalport.server.web.problems import Problem


@dataclass(frozen=True, slots=True)
class ChatbotModel:
    """A chatbot as a model."""

    name: str
    description: str
    scopes: Scopes
    chatbot: AgentProcessChatbot


@dataclass(frozen=True, slots=True)
class GoalModel:
    """A goal as a model: what a person says last is its input."""

    name: str
    description: str
    scopes: Scopes
    tool: GoalTool
    field: str
    """The argument that takes what was said."""

    def runs(self, process: AgentProcess) -> bool:
        """Whether a process is one of this goal."""
        return process.agent.name == self.tool.agent.name and {*process.goals} <= {*self.tool.goals}


Model = ChatbotModel | GoalModel


class Models:
    """The models of a server, and the handlers of requests about them."""

    def __init__(self, door: HttpDoor) -> None:
        self._door, self._platform = door, door.publisher.platform
        self._created = int(time.time())

    async def list(self, _: Request) -> Response:
        """All models that the caller may use."""
        return JSONResponse({"object": "list", "data": [self._shown(each) for each in self.usable()]})

    async def show(self, request: Request) -> Response:
        """One model."""
        return JSONResponse(self._shown(self.named(request.path_params["id"])))

    def named(self, name: str) -> Model:
        """The model of a name. Raises `Problem`: 404 if there is none, 403 if the caller lacks scopes for it."""
        found = next((each for each in self._all() if each.name == name), None)
        if found is None:
            hint = offer(name[:100], sorted(each.name for each in self.usable()), none="There is none.")
            detail, param = f"Unknown model {name[:100]!r}. {hint}", {"field": "model", "detail": "is not known"}
            raise Problem(HTTPStatus.NOT_FOUND, "model-not-found", detail, errors=[param])
        self._door.require(found.scopes)
        return found

    def usable(self) -> Iterator[Model]:
        """The models that the caller may use."""
        access = self._door.access
        return (each for each in self._all() if not access.lacks(each.scopes))

    def _all(self) -> Iterator[Model]:
        """Chatbots first: a goal of the same name is not reached here."""
        publication, chatbots = self._door.publisher.publication, self._platform.chatbots
        for each in chatbots.values():
            yield ChatbotModel(each.name, each.description, self._door.access.of_chatbot(each.mark), each)
        for name, tool in publication.tools.items():
            if isinstance(tool, GoalTool) and name not in chatbots and (field := tool.text_field) is not None:
                yield GoalModel(name, tool.tool.description or "", publication.scopes.tools[name], tool, field)

    def _shown(self, model: Model) -> Mapping[str, Any]:
        return {
            "id": model.name,
            "object": "model",
            "created": self._created,
            "owned_by": "goalport",
            "description": model.description,
        }
