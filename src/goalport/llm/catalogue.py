"""The catalogue of models: which there are, and which one a call means, by name, by role, by default or by preference.

A model is made when it is first chosen, and its provider's library is imported when it is first asked (`lazy`). Above:
`platform` makes one catalogue for all; `ai` asks it.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from goalport.errors import ModelNotReady
from goalport.llm.lazy import LazyEmbeddings, LazyModel
from goalport.llm.model import Closable, EmbeddingService, LanguageModel, LlmOptions, ModelCard
from goalport.llm.providers import ALIASES, PROVIDERS, Endpoint, endpoint, provider_of
from goalport.llm.settings import CustomModel, ModelsSettings
from goalport.words import did_you_mean, nearest, offer

__all__ = ["Models"]


@dataclass(frozen=True, slots=True)
class _FoundModel:
    """A model of a provider: what is known of it, and how it is reached."""

    card: ModelCard
    model: str
    """What the provider calls it."""
    endpoint: Endpoint


class Models:
    """Every model that can be asked here: those of the settings, and those given as `models` and `embeddings`.

    `environment` holds the providers' keys; None: the environment of this process. Connections are kept open until
    `aclose` is called.
    """

    def __init__(
        self,
        settings: ModelsSettings | None = None,
        *,
        models: Iterable[LanguageModel] = (),
        embeddings: Iterable[EmbeddingService] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings or ModelsSettings()
        self._providers = {ALIASES.get(name, name): each for name, each in self._settings.providers.items()}
        self._environment = os.environ if environment is None else environment
        self._registered: dict[str, LanguageModel] = {}
        for each in models:
            self._registered.setdefault(each.card.name, each)
            self._registered.setdefault(f"{each.card.provider}:{each.card.name}", each)
        self._first = next(iter(self._registered), "")
        self._embeddings = {each.name: each for each in embeddings}
        self._first_embedding = next(iter(self._embeddings), "")
        self._made: dict[str, LanguageModel] = {}
        self._made_embeddings: dict[str, EmbeddingService] = {}

    @property
    def default(self) -> str:
        """The name of the model that is asked when a call names none.

        It is the `default_llm` of the settings where that is set, else the first of the given models, else the
        built-in default.
        """
        chosen = "default_llm" in self._settings.model_fields_set
        return self._settings.default_llm if chosen or not self._first else self._first

    def choose(self, options: LlmOptions) -> LanguageModel:
        """The model that the options choose.

        Raises `ModelNotReady` for a model that is not known or cannot be asked; it says what to set or install.
        """
        if options.first_of:
            return self._first_of(options.first_of)
        if options.auto:
            return self._first_of((self.default, *self._registered, *self._settings.llms.values()))
        if options.role is not None:
            return self._named(_role(options.role, self._settings.llms, "llms"))
        return self._named(self.default if options.model is None else options.model)

    def embedding(self, name: str = "") -> EmbeddingService:
        """The embedding service with this name or role; an empty name means the default one.

        Raises `ModelNotReady` for one that is not known or cannot be asked, and when there is no default.
        """
        wanted = name or self._settings.default_embedding_model or self._first_embedding
        if not wanted:
            raise ModelNotReady("No embedding model is chosen. Set default_embedding_model in [models].")
        wanted = self._settings.embedding_services.get(wanted, wanted)
        ready = self._embeddings.get(wanted) or self._made_embeddings.get(wanted)
        if ready is None:
            found = self._find(wanted)
            provider = found.endpoint.provider
            if provider in PROVIDERS and not PROVIDERS[provider].has_embeddings:
                raise ModelNotReady(f"{provider} has no embedding models. Choose one of another provider.")
            ready = self._made_embeddings[wanted] = LazyEmbeddings(found.card, wanted, found.model, found.endpoint)
        return ready

    def cards(self) -> tuple[ModelCard, ...]:
        """The cards of all models that were given or that the settings name, ready to be asked or not."""
        cards = [each.card for each in self._registered.values()]
        cards += [self._card(name) for name in self._names() if name not in self._registered]
        return tuple(dict.fromkeys(cards))

    def unready(self, name: str) -> str:
        """Why the model with this name cannot be asked, in a sentence that says what to do; empty when it can be."""
        try:
            if name not in self._registered and name not in self._made:
                self._find(name)
        except ModelNotReady as error:
            return str(error)
        return ""

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the settings: a sentence for each problem, which says what to do.

        A problem is a role or a chosen default whose model cannot be asked, and a provider that is not known.
        """
        wanted = {f"role {role!r} (llms)": name for role, name in self._settings.llms.items()}
        if "default_llm" in self._settings.model_fields_set:
            wanted["default_llm"] = self._settings.default_llm
        vectors = {f"role {role!r} (embedding_services)": n for role, n in self._settings.embedding_services.items()}
        if self._settings.default_embedding_model:
            vectors["default_embedding_model"] = self._settings.default_embedding_model
        found = {
            f"providers.{name}": _unknown_provider(name)
            for name, settings in self._providers.items()
            if name not in PROVIDERS and not settings.base_url
        }
        found |= {place: self.unready(name) for place, name in wanted.items()}
        found |= {place: self.unready(name) for place, name in vectors.items() if name not in self._embeddings}
        return tuple(f"{place}: {why}" for place, why in found.items() if why)

    async def aclose(self) -> None:
        """Close the connections to the providers. A model that is asked afterwards opens new ones."""
        made = [*self._made.values(), *self._made_embeddings.values()]
        self._made, self._made_embeddings = {}, {}
        for each in made:
            if isinstance(each, Closable):
                await each.aclose()

    def _names(self) -> list[str]:
        """The names that the settings mention, each once."""
        named = [self.default, *self._settings.llms.values(), *(each.name for each in self._settings.custom)]
        return list(dict.fromkeys(named))

    def _first_of(self, names: Iterable[str]) -> LanguageModel:
        reasons: dict[str, str] = {}
        for name in names:
            if not (why := self.unready(name)):
                return self._named(name)
            reasons[name] = why
        said = " ".join(f"{name}: {why}" for name, why in reasons.items())
        raise ModelNotReady(f"None of {', '.join(reasons)} is available. {said}")

    def _named(self, name: str) -> LanguageModel:
        ready = self._registered.get(name) or self._made.get(name)
        if ready is None:
            found = self._find(name)
            ready = self._made[name] = LazyModel(found.card, found.model, found.endpoint)
        return ready

    def _find(self, name: str) -> _FoundModel:
        own = self._custom(name)
        provider, model = self._provider(name, own)
        if not provider:
            known = {*self._registered, *self._names()} - {name}
            raise ModelNotReady(_unknown(name, known, (*PROVIDERS, *self._providers)))
        shared = PROVIDERS[provider].settings if provider in PROVIDERS else ""
        settings = self._providers.get(provider) or self._providers.get(shared)
        place = endpoint(provider, settings, self._environment, base_url=own.base_url, api_key=own.api_key)
        return _FoundModel(self._card(name), own.model or model, place)

    def _provider(self, name: str, own: CustomModel) -> tuple[str, str]:
        if own.provider:
            return ALIASES.get(own.provider, own.provider), name.removeprefix(f"{own.provider}:")
        provider, model = provider_of(name, self._providers, self._environment)
        return provider or ("openai" if own.base_url else ""), model

    def _custom(self, name: str) -> CustomModel:
        for each in self._settings.custom:
            if name in {each.name, f"{each.provider}:{each.name}", ":".join(self._provider(each.name, each))}:
                return each
        return CustomModel(name=name)

    def _card(self, name: str) -> ModelCard:
        own = self._custom(name)
        provider, model = self._provider(name, own)
        return ModelCard(
            name=model,
            provider=provider,
            knowledge_cutoff=own.knowledge_cutoff,
            prices=own.prices,
            contributors=own.contributors,
            vision=own.vision,
        )


def _unknown(name: str, known: Iterable[str], providers: Iterable[str]) -> str:
    near = nearest(name, known) or nearest(name.partition(":")[0], providers)
    guess = f" {did_you_mean(near)}" if near else ""
    return (
        f"Unknown model {name!r}.{guess} Write its provider before it, like openai:{name.rpartition(':')[2]}; "
        f"the providers are {', '.join(providers)}. A model of your own stands in [[models.custom]]."
    )


def _unknown_provider(name: str) -> str:
    hint = offer(name, PROVIDERS)
    return f"Unknown provider {name!r}. {hint} One of your own, that speaks as OpenAI does, has a base_url."


def _role(role: str, models: Mapping[str, str], table: str) -> str:
    if role not in models:
        hint = offer(role, sorted(models), none="There is none yet.")
        raise ModelNotReady(f"No model has the role {role!r}. {hint} Set {role} in [models.{table}].")
    return models[role]
