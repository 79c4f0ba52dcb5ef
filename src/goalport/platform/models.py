"""The platform's models: which it was given, and the engines and the `Ai` that are made of them."""

from collections.abc import Callable, Iterable
from typing import cast

from goalport.ai import Ai, Engine, Guard, LlmEngine, LlmOperations, Operation, Services
from goalport.domain import Action, Injected, ProvidedInput
from goalport.llm import EmbeddingService, LanguageModel, Models
from goalport.process import CurrentOperation
from goalport.prompts import Templates
from goalport.settings import Settings, environment_of
from goalport.tools import ToolGroupResolver
from goalport.workspace import Workspace

__all__ = ["Intelligence", "asks_a_model", "models_of", "workspace_models"]


_MODEL = ("card", "reply", "stream")
_EMBEDDINGS = ("name", "dimensions", "embed")


def models_of(given: Models | LanguageModel | Iterable[LanguageModel] | None) -> Models:
    """The catalogue: as given, made of the models given, or of what the environment offers."""
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
    """The catalogue of a workspace: what its settings say, and the models that stand in its modules."""
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


class Intelligence:
    """Models, and how they are worked with; makes what carries out the requests of an `Ai`."""

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
        """Ask other models from now on; what runs may go on asking those that it began with."""
        self._earlier.append(self.models)
        self.models = models

    async def aclose(self) -> None:
        """Close the connections to all models."""
        for each in (*self._earlier, self.models):
            await each.aclose()

    def engine(self, operation: Operation, groups: ToolGroupResolver) -> Engine:
        """For an action of a process, with the tool groups that the process began with."""
        return self._engine(operation, lambda: groups)

    def ai(self, groups: Callable[[], ToolGroupResolver]) -> Ai:
        """For code outside of actions; inside of one it counts towards the action's process."""
        return Ai(self._engine(CurrentOperation(), groups))

    def _engine(self, operation: Operation, groups: Callable[[], ToolGroupResolver]) -> Engine:
        return LlmEngine(self.models, groups, self._settings, operation, self._guards, self._templates, self._services)
