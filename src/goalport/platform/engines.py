"""The platform's models, and who asks them: the engines of actions, the `Ai` outside of them, and upstream servers.

Below: the models and the loop of a model with tools. Above: the platform, which has one `Engines`.
"""

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from goalport.ai import Ai, Engine, Guard, LlmEngine, LlmOperations, Operation, Services
from goalport.domain import Action, Injected, ProvidedInput
from goalport.errors import BadInput
from goalport.llm import AssistantMessage, EmbeddingService, Image, LanguageModel, Models, UserMessage
from goalport.process import CurrentOperation
from goalport.prompts import Templates
from goalport.settings import Settings, environment_of
from goalport.tools import ToolGroupResolver
from goalport.workspace import Workspace

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Engines", "Sampling", "asks_a_model", "models_of", "workspace_models"]

_MOST_TOKENS = 4_096
"""The most tokens of one answer for a server, however many it asks for."""
_MODEL = ("card", "reply", "stream")
_EMBEDDINGS = ("name", "dimensions", "embed")


def models_of(given: Models | LanguageModel | Iterable[LanguageModel] | None) -> Models:
    """The catalogue: as given, made of the models given, or of what the environment offers.

    Raises `TypeError` for what is no model.
    """
    if given is None or isinstance(given, Models):
        return given or Models()
    # A class has all that the protocol asks for, and is no model yet.
    models = [given] if isinstance(given, (LanguageModel, type)) else list(given)
    for each in cast("list[object]", models):
        if isinstance(each, type) or not isinstance(each, LanguageModel):
            raise TypeError(
                f"Expected models, but came {each!r}. Names of models belong into the settings:"
                ' AgentPlatform(models=Models(ModelsSettings(default_llm="…"))).'
            )
    return Models(models=models)


def workspace_models(workspace: Workspace, settings: Settings) -> Models:
    """The catalogue of a workspace: the models of its settings, and those that its modules define."""
    # A protocol with properties cannot be asked about a class, and values are not asked what they are.
    values = workspace.values(object)
    models = [each for each in values if all(hasattr(type(each), name) for name in _MODEL)]
    embeddings = [each for each in values if all(hasattr(type(each), name) for name in _EMBEDDINGS)]
    return Models(
        settings.models,
        models=cast("list[LanguageModel]", models),
        embeddings=cast("list[EmbeddingService]", embeddings),
        environment=environment_of(settings.workspace),
    )


def asks_a_model(action: Action) -> bool:
    """Whether an action is given an `Ai`: by a parameter, or in the constructor of its class."""
    kinds = [each.type for each in action.parameters if isinstance(each, (Injected, ProvidedInput))]
    held = map(type, getattr(action.owner, "__dict__", {}).values())
    return Ai in kinds or Ai in held


class Engines:
    """Makes the engines that carry out the requests of an `Ai`, of the platform's models, limits and guards."""

    def __init__(
        self,
        models: Models,
        settings: LlmOperations,
        services: Callable[[type], object | None],
        guards: Iterable[Guard] = (),
        templates: Templates | None = None,
    ) -> None:
        self.models = models
        self._earlier: list[Models] = []
        self._settings = settings
        self._services = Services(services)
        self._guards = tuple(guards)
        self._templates = templates or Templates()

    def renew(self, models: Models) -> None:
        """Use other models from now on; processes that run keep the models that they began with."""
        self._earlier.append(self.models)
        self.models = models

    async def aclose(self) -> None:
        """Close the connections to all models."""
        for each in (*self._earlier, self.models):
            await each.aclose()

    def engine(self, operation: Operation, groups: ToolGroupResolver) -> Engine:
        """The engine of an action of a process, with the tool groups that the process began with."""
        return self._engine(operation, lambda: groups)

    def ai(self, groups: Callable[[], ToolGroupResolver]) -> Ai:
        """An `Ai` for code outside of actions; called inside of one, its cost counts for the action's process."""
        return Ai(self._engine(CurrentOperation(), groups))

    def _engine(self, operation: Operation, groups: Callable[[], ToolGroupResolver]) -> Engine:
        return LlmEngine(self.models, groups, self._settings, operation, self._guards, self._templates, self._services)


class Sampling:
    """Asks the default model for upstream servers that want one asked (MCP, `sampling/createMessage`).

    The default model answers, whatever the server would rather have; no tools are offered to it, and what the server
    wrote is taken as it is. Whether a server may ask is said in its entry of the configuration.
    """

    def __init__(self, ai: Callable[[], Ai], model: Callable[[], str]) -> None:
        self._ai = ai
        self._model = model

    async def __call__(self, server: str, request: "CreateMessageRequestParams", /) -> "CreateMessageResult":
        """What the model says. Raises `GoalportError` when it says nothing, or the request cannot be understood."""
        from mcp_types import CreateMessageResult, TextContent

        if request.tools:
            raise BadInput("Models are asked without tools here. Ask without.")
        limits: dict[str, Any] = {"max_tokens": max(1, min(request.max_tokens, _MOST_TOKENS))}
        if request.temperature is not None:
            limits["temperature"] = request.temperature
        ai = self._ai().with_default_llm().with_llm(**limits).with_id(f"sampling for {server}")
        if request.system_prompt:
            ai = ai.with_system_prompt(request.system_prompt)
        said = await ai.respond([_message(each.role, each.content) for each in request.messages])
        words = TextContent(type="text", text=said.content)
        return CreateMessageResult(role="assistant", content=words, model=self._model(), stop_reason="endTurn")


def _message(role: str, content: Any) -> UserMessage | AssistantMessage:
    blocks = cast("list[Any]", content if isinstance(content, list) else [content])
    texts: list[str] = []
    images: list[Image] = []
    for block in blocks:
        match block.type:
            case "text":
                texts.append(block.text)
            case "image" if role == "user":
                images.append(_image(block.mime_type, block.data))
            case kind:
                raise BadInput(
                    f"A model cannot be asked with {kind} from {role} here. Send texts, or images of the user."
                )
    text = "\n\n".join(texts)
    return UserMessage(text, tuple(images)) if role == "user" else AssistantMessage(text)


def _image(media_type: str, data: str) -> Image:
    try:
        return Image(media_type, base64.b64decode(data, validate=True))
    except binascii.Error:
        raise BadInput("The data of an image are no base64.") from None
