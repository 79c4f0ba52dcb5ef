"""The platform's models: which it was given, and the engines and the `Ai` that are made of them."""

from collections.abc import Callable, Iterable

from goalport.ai import Ai, Engine, Guard, LlmEngine, LlmOperations, Operation
from goalport.llm import LanguageModel, Models
from goalport.process import Ambient
from goalport.prompts import Templates
from goalport.tools import ToolGroupResolver

__all__ = ["Intelligence", "models_of"]


def models_of(given: Models | LanguageModel | Iterable[LanguageModel] | None) -> Models:
    """The catalogue: as given, made of the models given, or of what the environment offers."""
    if isinstance(given, Models):
        return given
    if given is None:
        return Models()
    return Models(models=[given] if isinstance(given, LanguageModel) else given)


class Intelligence:
    """Models, and how they are worked with; makes what carries out the requests of an `Ai`."""

    def __init__(
        self, models: Models, settings: LlmOperations, guards: Iterable[Guard] = (), templates: Templates | None = None
    ) -> None:
        self.models = models
        self._settings = settings
        self._guards = tuple(guards)
        self._templates = templates or Templates()

    def engine(self, operation: Operation, groups: ToolGroupResolver) -> Engine:
        """For an action of a process, with the tool groups that the process began with."""
        return self._engine(operation, lambda: groups)

    def ai(self, groups: Callable[[], ToolGroupResolver]) -> Ai:
        """For code outside of actions; inside of one it counts towards the action's process."""
        return Ai(self._engine(Ambient(), groups))

    def _engine(self, operation: Operation, groups: Callable[[], ToolGroupResolver]) -> Engine:
        return LlmEngine(self.models, groups, self._settings, operation, self._guards, self._templates)
