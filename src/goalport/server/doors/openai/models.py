"""What is a model at this door: each chatbot, and each published goal that can be started from a sentence.

A caller is shown those that it may use. Above: the handlers, which list them and find the one that a request names.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from goalport.base.words import offer
from goalport.runtime.chat import AgentProcessChatbot
from goalport.runtime.process import AgentProcess
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.scopes import Scopes
from goalport.server.web import HttpDoor, Problem

_UNKNOWN: Final = "model-not-found"


@dataclass(frozen=True, slots=True)
class ChatbotModel:
    """A chatbot as a model."""

    chatbot: AgentProcessChatbot
    scopes: Scopes

    @property
    def name(self) -> str:
        """Its name."""
        return self.chatbot.name

    @property
    def description(self) -> str:
        """What it is for."""
        return self.chatbot.description


@dataclass(frozen=True, slots=True)
class GoalModel:
    """A goal as a model: what a person says last is its input."""

    tool: GoalTool
    field: str
    """The argument that takes what was said."""
    scopes: Scopes

    @property
    def name(self) -> str:
        """The name under which the goal is published."""
        return self.tool.tool.name

    @property
    def description(self) -> str:
        """What it is for."""
        return self.tool.tool.description or ""

    def runs(self, process: AgentProcess) -> bool:
        """Whether a process is one of this goal."""
        return process.agent.name == self.tool.agent.name and {*process.goals} <= {*self.tool.goals}


Model = ChatbotModel | GoalModel


class Models:
    """The models of a server."""

    def __init__(self, door: HttpDoor) -> None:
        self._door = door
        self._platform = door.publisher.platform

    def named(self, name: str) -> Model:
        """The model of a name. Raises `Problem`: 404 if there is none, 403 if the caller lacks scopes for it."""
        found = next((each for each in self._all() if each.name == name), None)
        if found is None:
            hint = offer(name[:100], sorted(each.name for each in self.usable), none="There is none.")
            raise Problem(HTTPStatus.NOT_FOUND, _UNKNOWN, f"Unknown model {name[:100]!r}. {hint}", errors=_PARAM)
        self._door.require(found.scopes)
        return found

    @property
    def usable(self) -> Iterator[Model]:
        """The models that the caller may use."""
        access = self._door.access
        return (each for each in self._all() if not access.lacks(each.scopes))

    def _all(self) -> Iterator[Model]:
        """Chatbots first: a goal of the same name is not reached here."""
        publication = self._door.publisher.publication
        chatbots = self._platform.chatbots
        for chatbot in chatbots.values():
            yield ChatbotModel(chatbot, self._door.access.of_chatbot(chatbot.mark))
        for name, tool in publication.tools.items():
            if isinstance(tool, GoalTool) and name not in chatbots and (field := tool.text_field) is not None:
                yield GoalModel(tool, field, publication.scopes.tools[name])


_PARAM: Final = [{"field": "model", "detail": "is not known"}]


class ModelHandlers:
    """The handlers of requests about models."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._created = int(time.time())

    async def list(self, _: Request) -> Response:
        """All models that the caller may use."""
        return JSONResponse({"object": "list", "data": [self._shown(each) for each in self._models.usable]})

    async def show(self, request: Request) -> Response:
        """One model."""
        return JSONResponse(self._shown(self._models.named(request.path_params["id"])))

    def _shown(self, model: Model) -> Mapping[str, Any]:
        return {
            "id": model.name,
            "object": "model",
            "created": self._created,
            "owned_by": "goalport",
            "description": model.description,
        }
