"""The catalogue of models: which there are, and which one a call means, by name, by role, by default or by preference.

The settings of models, `[models]` in a workspace's settings, are read here. Above: `platform` makes one catalogue for
all, `ai` asks it; below: `provider_models` has the models. User guide, "Setting default LLM and roles".
"""

import json
import os
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import date
from logging import getLogger
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, SecretStr, WrapValidator, field_validator

from goalport.base.errors import ModelNotReady
from goalport.base.words import did_you_mean, excerpt, nearest, offer
from goalport.models.llm.dialects import Endpoint, ProviderSettings
from goalport.models.llm.model import (
    AssistantMessage,
    EmbeddingService,
    LanguageModel,
    LlmOptions,
    ModelCall,
    ModelCard,
    ModelReply,
    Prices,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    UserMessage,
)
from goalport.models.llm.provider_models import ProviderEmbeddings, ProviderModel
from goalport.models.llm.providers import ALIASES, PROVIDERS, endpoint, provider_of
from goalport.models.prompts import made_up

_Settings = ConfigDict(frozen=True, extra="forbid")


class CustomModel(BaseModel):
    """A model that goalport does not know by itself, or additions to what it knows of one."""

    model_config = _Settings

    name: Annotated[str, Field(min_length=1)]
    """The name by which it is chosen here."""
    provider: str = ""
    """Empty: found by the name, or by the part before its colon; with a `base_url`, a provider with OpenAI's API."""
    model: str = ""
    """The name that the provider gives it; empty: the same as `name`."""
    base_url: str = ""
    """The address of its API; empty: the provider's."""
    api_key: SecretStr | None = None
    """None: the provider's key, but none for a model with a `base_url`: a key goes to its provider's address only."""
    knowledge_cutoff: date | None = None
    prices: Prices | None = None
    vision: bool | None = None
    """Whether the model takes images; None: the provider decides."""
    contributors: tuple[str, ...] = ()
    """Texts for the system prompt of every call of this model."""


class RoleSettings(LlmOptions):
    """What a role stands for: a model, and the options with which it is asked where a call says nothing else."""

    fallbacks: tuple[str, ...] = ()
    """The models to ask, one after another, when the model of the role fails, after the fallbacks of the call."""

    @field_validator("role")
    @classmethod
    def _is_none(cls, value: str | None) -> str | None:
        if value is not None:
            raise ValueError("should not be set: a role stands for a model, not for another role")
        return value


_Role = Annotated[
    str | RoleSettings,
    WrapValidator(lambda given, _: given if isinstance(given, str) else RoleSettings.model_validate(given)),
]
"""Validated so that an error tells what is wrong in the table, and not also that the table is no text."""


class ModelsSettings(BaseModel):
    """Which models there are, and which role each has."""

    model_config = _Settings

    default_llm: str = "gpt-4.1-mini"
    """The model that is asked when a call names none."""
    default_embedding_model: str = ""
    """The embedding model that is used when a call names none; empty: none."""
    llms: Mapping[str, _Role] = Field(default_factory=dict[str, _Role])
    """The model of each role: its name, or its options with `fallbacks`."""
    embedding_services: dict[str, str] = Field(default_factory=dict)
    """The name of an embedding model for each role."""
    providers: dict[str, ProviderSettings] = Field(default_factory=dict)
    """The settings of each provider, by its name. A name of your own needs a `base_url`, with the API of OpenAI."""
    custom: tuple[CustomModel, ...] = ()

    @property
    def models_of_roles(self) -> Mapping[str, str]:
        """The name of the model that each role stands for; of several, the first."""
        return {
            role: each if isinstance(each, str) else each.model or next(iter(each.first_of), self.default_llm)
            for role, each in self.llms.items()
        }


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
        self._given: dict[str, LanguageModel] = {}
        for each in models:
            for name in (each.card.name, f"{each.card.provider}:{each.card.name}"):
                self._given.setdefault(name, each)
        self._given_embeddings = {each.name: each for each in embeddings}
        has_trial = all(each.name != TRIAL_MODEL for each in self._settings.custom)
        self._ready: dict[str, LanguageModel] = {**({TRIAL_MODEL: TrialModel()} if has_trial else {}), **self._given}
        """The models that were passed or made, by the names by which they are chosen."""
        self._ready_embeddings: dict[str, EmbeddingService] = {**self._given_embeddings}

    @property
    def default(self) -> str:
        """The name of the model that is asked when a call names none.

        It is the `default_llm` of the settings where that is set, else the first of the given models, else the
        built-in default.
        """
        chosen = "default_llm" in self._settings.model_fields_set
        return self._settings.default_llm if chosen else next(iter(self._given), self._settings.default_llm)

    @property
    def default_embedding(self) -> str:
        """The name of the embedding model that is used when a call names none; empty: there is none."""
        return self._settings.default_embedding_model or next(iter(self._given_embeddings), "")

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles for which the settings name a model."""
        return tuple(self._settings.llms)

    def complete(self, options: LlmOptions) -> LlmOptions:
        """The options, completed with those of their role."""
        role = self._settings.llms.get(options.role or "")
        if not isinstance(role, RoleSettings):
            return options
        given = {name: getattr(options, name) for name in options.model_fields_set - {"role"}}
        of_role = {name: getattr(role, name) for name in role.model_fields_set - {"fallbacks"}}
        return LlmOptions.model_validate(of_role | given)

    def fallbacks(self, options: LlmOptions) -> tuple[str, ...]:
        """The models that are asked when the model of the role fails."""
        role = self._settings.llms.get(options.role or "")
        return role.fallbacks if isinstance(role, RoleSettings) else ()

    def choose(self, options: LlmOptions) -> LanguageModel:
        """The model that the options choose.

        Raises `ModelNotReady` for a model that is not known or cannot be asked; it says what to set or install.
        """
        llms = self._settings.models_of_roles
        if options.first_of or options.auto:
            reasons: dict[str, str] = {}
            for name in options.first_of or (self.default, *self._given, *llms.values()):
                if not (why := self.why_not_ready(name)):
                    return self._named(name)
                reasons[name] = why
            details = " ".join(f"{name}: {why}" for name, why in reasons.items())
            raise ModelNotReady(f"None of {', '.join(reasons)} is available. {details}")
        if options.role is None:
            return self._named(self.default if options.model is None else options.model)
        if options.role not in llms:
            hint = offer(options.role, sorted(llms), none="There is none yet.")
            raise ModelNotReady(f"No model has the role {options.role!r}. {hint} Set {options.role} in [models.llms].")
        return self._named(llms[options.role])

    def embedding(self, name: str = "") -> EmbeddingService:
        """The embedding service with this name or role; an empty name means the default one.

        Raises `ModelNotReady` for one that is not known or cannot be asked, and when there is no default.
        """
        wanted = name or self.default_embedding
        if not wanted:
            raise ModelNotReady("No embedding model is chosen. Set default_embedding_model in [models].")
        wanted = self._settings.embedding_services.get(wanted, wanted)
        if wanted not in self._ready_embeddings:
            card, model, place = self._find(wanted)
            if place.dialect.embeddings is None:
                raise ModelNotReady(f"{place.provider} has no embedding models. Choose one of another provider.")
            self._ready_embeddings[wanted] = ProviderEmbeddings(card, wanted, model, place)
        return self._ready_embeddings[wanted]

    def cards(self) -> tuple[ModelCard, ...]:
        """The cards of all models that were given or that the settings name, ready to be asked or not."""
        cards = [each.card for each in self._given.values()]
        cards += [self._described(name)[1] for name in self._names() if name not in self._given]
        return tuple(dict.fromkeys(cards))

    def why_not_ready(self, name: str) -> str:
        """Why the model with this name cannot be asked, in a sentence that says what to do; empty when it can be."""
        try:
            if name not in self._ready:
                self._find(name)
        except ModelNotReady as error:
            return str(error)
        return ""

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the settings: a sentence for each problem, which says what to do.

        A problem is a role or a chosen default whose model cannot be asked, and a provider that is not known.
        """
        settings = self._settings
        wanted = {f"role {role!r} (llms)": name for role, name in settings.models_of_roles.items()}
        if "default_llm" in settings.model_fields_set:
            wanted["default_llm"] = settings.default_llm
        vectors = {f"role {role!r} (embedding_services)": name for role, name in settings.embedding_services.items()}
        if settings.default_embedding_model:
            vectors["default_embedding_model"] = settings.default_embedding_model
        wanted |= {place: name for place, name in vectors.items() if name not in self._given_embeddings}
        found = {
            f"providers.{name}": f"Unknown provider {name!r}. {offer(name, PROVIDERS)} One of your own, that speaks as "
            "OpenAI does, has a base_url."
            for name, each in self._providers.items()
            if name not in PROVIDERS and not each.base_url
        }
        found |= {place: self.why_not_ready(name) for place, name in wanted.items()}
        return tuple(f"{place}: {why}" for place, why in found.items() if why)

    async def aclose(self) -> None:
        """Close the connections to the providers. A model that is asked afterwards opens new ones."""
        for ready in (self._ready, self._ready_embeddings):
            for name, each in [*ready.items()]:
                if isinstance(each, ProviderModel | ProviderEmbeddings):
                    del ready[name]
                    await each.aclose()

    def _names(self) -> list[str]:
        """The names that the settings mention, each once."""
        named = [self.default, *self._settings.models_of_roles.values(), *(each.name for each in self._settings.custom)]
        return list(dict.fromkeys(named))

    def _named(self, name: str) -> LanguageModel:
        if name not in self._ready:
            self._ready[name] = ProviderModel(*self._find(name))
        return self._ready[name]

    def _find(self, name: str) -> tuple[ModelCard, str, Endpoint]:
        """The card of a model, the provider's name for it, and its endpoint. Raises `ModelNotReady`."""
        own, card = self._described(name)
        if not card.provider:
            providers = (*PROVIDERS, *self._providers)
            near = nearest(name, {*self._given, *self._names()} - {name}) or nearest(name.partition(":")[0], providers)
            raise ModelNotReady(
                f"Unknown model {name!r}.{f' {did_you_mean(near)}' if near else ''} Write its provider before it, like "
                f"openai:{name.rpartition(':')[2]}; the providers are {', '.join(providers)}. A model of your own "
                "stands in [[models.custom]]."
            )
        shared = PROVIDERS[card.provider].settings if card.provider in PROVIDERS else ""
        settings = self._providers.get(card.provider) or self._providers.get(shared)
        place = endpoint(card.provider, settings, self._environment, base_url=own.base_url, api_key=own.api_key)
        return card, own.model or card.name, place

    def _described(self, name: str) -> tuple[CustomModel, ModelCard]:
        """The settings of a model, and its card."""
        if isinstance(trial := self._ready.get(name), TrialModel):
            return CustomModel(name=name), trial.card
        custom = (
            each
            for each in self._settings.custom
            if name in {each.name, f"{each.provider}:{each.name}", ":".join(self._provider(each.name, each))}
        )
        own = next(custom, CustomModel(name=name))
        provider, model = self._provider(name, own)
        return own, ModelCard(
            name=model,
            provider=provider,
            knowledge_cutoff=own.knowledge_cutoff,
            prices=own.prices,
            contributors=own.contributors,
            vision=own.vision,
        )

    def _provider(self, name: str, own: CustomModel) -> tuple[str, str]:
        if own.provider:
            return ALIASES.get(own.provider, own.provider), name.removeprefix(f"{own.provider}:")
        provider, model = provider_of(name, self._providers, self._environment)
        # A server at an address of its own mostly has the API of OpenAI, whoever made the model.
        return ("openai", name) if own.base_url and model == name else (provider, model)


TRIAL_MODEL: Final = "test"
_CHOICE: Final = re.compile(r"<candidates>\n(.*?)\n</candidates>\n<request>\n(.*)\n</request>", re.DOTALL)
"""How autonomy asks which agent or goal fits a request."""
_log = getLogger(__name__)


class TrialModel:
    """Fills types with made-up values, says what it was asked, and calls each tool that a prompt names once.

    A value is made from the schema alone: it uses the `examples` of a field, and no rules that only a validator knows.
    """

    card = ModelCard(name=TRIAL_MODEL, provider="goalport", vision=True)

    async def reply(self, call: ModelCall, /) -> ModelReply:
        """A made-up reply. It costs nothing."""
        message, output = AssistantMessage(), None
        asked = next((each.content for each in reversed(call.messages) if isinstance(each, UserMessage)), "")
        # Each tool that a message names is called, unless the last message is the result of one.
        open_to_calls = bool(call.messages) and isinstance(call.messages[-1], UserMessage)
        said = "\n".join(str(getattr(each, "content", "")) for each in call.messages)
        named = [each for each in call.tools if open_to_calls and re.search(rf"\b{re.escape(each.name)}\b", said)]
        if named:
            arguments = [json.dumps(made_up(each.input_schema), ensure_ascii=False) for each in named]
            calls = (ToolCall(f"test-{n}", each.name, arguments[n - 1]) for n, each in enumerate(named, start=1))
            message = AssistantMessage(calls=tuple(calls), finish="tool_call")
        elif call.output is not None and (choice := _CHOICE.search(asked)):
            wanted = _words(choice[2])  # the candidate that has most words in common with the request
            best = max(choice[1].splitlines(), key=lambda line: len(wanted & _words(line)))
            name = best.removeprefix("- ").partition(":")[0]
            output = json.dumps({"ratings": [{"name": name, "confidence": 0.9}]}, ensure_ascii=False)
        elif call.output is not None:
            output = json.dumps(made_up(call.output.schema), ensure_ascii=False)
        else:
            message = AssistantMessage(f"This is the test model, and it was asked: {excerpt(asked, 500)}")
        _log.info("The test model, which makes everything up, was asked: %s", excerpt(asked, 200))
        return ModelReply(message=message, output=output, model=TRIAL_MODEL, finish=message.finish)

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """The same, word by word."""
        reply = await self.reply(call)
        for word in re.findall(r"\S+\s*", reply.output or reply.message.content):
            yield TextDelta(word)
        yield reply


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w{4,}", text.lower()))
