"""Which model a call means, and what is said when there is none."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from typing import Any

import pytest
from pydantic import ValidationError

from goalport.base.errors import ModelNotReady
from goalport.models.llm import (
    AssistantMessage,
    LlmOptions,
    ModelCall,
    ModelCard,
    ModelReply,
    Models,
    ModelsSettings,
    Prices,
    TextDelta,
    ThinkingDelta,
    UserMessage,
)
from tests.rooms.llm.asking import call
from tests.rooms.llm.servers import chat, error, serving

KEYS = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "GEMINI_API_KEY": "g", "DEEPSEEK_API_KEY": "d"}


@dataclass(frozen=True)
class Parrot:
    """A model of one's own."""

    card: ModelCard

    async def reply(self, asked: ModelCall, /) -> ModelReply:
        last = asked.messages[-1]
        assert isinstance(last, UserMessage)
        return ModelReply(message=AssistantMessage(last.content))

    async def stream(self, asked: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        yield await self.reply(asked)


@dataclass
class Lengths:
    """An embedding service of one's own."""

    name: str
    dimensions: int | None = 1

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        return [[float(len(text))] for text in texts]


PARROT = Parrot(ModelCard(name="parrot", provider="zoo"))


def _installed(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ModuleNotFoundError:
        return False


def catalogue(environment: Mapping[str, str] = KEYS, **settings: Any) -> Models:
    return Models(ModelsSettings.model_validate(settings), environment=environment)


def chosen(models: Models, **options: Any) -> str:
    card = models.choose(LlmOptions(**options)).card
    return f"{card.provider}:{card.name}"


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("gpt-4.1", "openai:gpt-4.1"),
        ("o3-mini", "openai:o3-mini"),
        ("claude-opus-4-8", "anthropic:claude-opus-4-8"),
        ("gemini-2.5-pro", "gemini:gemini-2.5-pro"),
        ("deepseek-chat", "deepseek:deepseek-chat"),
        ("ai/gemma3", "docker:ai/gemma3"),
        ("ollama:qwen3:latest", "ollama:qwen3:latest"),
        ("openai-responses:gpt-5", "openai-responses:gpt-5"),
        ("openai:anything", "openai:anything"),
    ],
)
def test_a_name_tells_its_provider_or_says_it(name: str, whole: str) -> None:
    assert chosen(catalogue(), model=name) == whole


def test_a_call_that_names_no_model_means_the_default_one() -> None:
    assert chosen(catalogue()) == "openai:gpt-4.1-mini"
    assert chosen(catalogue(default_llm="claude-opus-4-8")) == "anthropic:claude-opus-4-8"


def test_a_role_means_the_model_that_the_settings_say() -> None:
    models = catalogue(llms={"best": "claude-opus-4-8", "cheapest": "gpt-4.1-nano"})
    assert chosen(models, role="best") == "anthropic:claude-opus-4-8"
    with pytest.raises(ModelNotReady, match=r"role 'bets'. Did you mean 'best'\? Set bets in \[models.llms\]"):
        models.choose(LlmOptions(role="bets"))
    with pytest.raises(ModelNotReady, match="There is none yet"):
        catalogue().choose(LlmOptions(role="best"))


def test_the_first_that_is_available_is_taken() -> None:
    models = catalogue({"ANTHROPIC_API_KEY": "a"})
    assert chosen(models, first_of=("gpt-4.1", "nonsense", "claude-opus-4-8")) == "anthropic:claude-opus-4-8"
    with pytest.raises(ModelNotReady, match=r"None of gpt-4.1, deepseek-chat is available\..*OPENAI_API_KEY.*DEEPSEEK"):
        models.choose(LlmOptions(first_of=("gpt-4.1", "deepseek-chat")))


def test_left_to_the_platform_it_is_the_default_or_any_other_that_is_ready() -> None:
    assert chosen(catalogue(), auto=True) == "openai:gpt-4.1-mini"
    roles = {"best": "claude-opus-4-8"}
    assert chosen(catalogue({"ANTHROPIC_API_KEY": "a"}, llms=roles), auto=True) == "anthropic:claude-opus-4-8"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpt-4.1", "Set OPENAI_API_KEY in the environment or in .env"),
        ("claude-opus-4-8", "ANTHROPIC_API_KEY"),
        ("deepseek-chat", "DEEPSEEK_API_KEY"),
        ("gemini-2.5-pro", "GEMINI_API_KEY"),
        ("azure:gpt-4.1", "AZURE_OPENAI_API_KEY"),
        ("nonsense", "Unknown model 'nonsense'"),
        ("gtp-4.1-mini", "Did you mean 'gpt-4.1-mini'"),
        ("opnai:gpt-4.1", "Did you mean 'openai'"),
        ("qwen3:latest", "the providers are openai,"),
    ],
)
def test_what_is_missing_is_said(name: str, words: str) -> None:
    models = catalogue({})
    with pytest.raises(ModelNotReady) as caught:
        models.choose(LlmOptions(model=name))
    assert words in str(caught.value)
    assert models.why_not_ready(name) == str(caught.value)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"AZURE_OPENAI_API_KEY": "z"}, "Set base_url in [models.providers.azure] or AZURE_OPENAI_ENDPOINT"),
        ({"AZURE_OPENAI_API_KEY": "z", "AZURE_OPENAI_ENDPOINT": "x.openai.azure.com"}, "OPENAI_API_VERSION"),
    ],
)
def test_azure_wants_an_address_and_a_version(environment: dict[str, str], words: str) -> None:
    assert words in catalogue(environment).why_not_ready("azure:gpt-4.1")
    complete = {"AZURE_OPENAI_API_KEY": "z", "AZURE_OPENAI_ENDPOINT": "x.openai.azure.com", "OPENAI_API_VERSION": "1"}
    assert not catalogue(complete).why_not_ready("azure:gpt-4.1")


@pytest.mark.parametrize(
    "url",
    ["not a url", "ftp://example.com", "http://", "http://[::1", "http://example.com:99999", "https://x.y/v1?key=z"],
)
def test_an_address_that_is_none_is_said_before_anything_is_sent(url: str) -> None:
    why = catalogue({"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": url}).why_not_ready("gpt-4.1")
    assert "The base URL of openai is no address of an API" in why
    assert "OPENAI_BASE_URL" in why
    assert "key=z" not in why


@pytest.mark.parametrize("key", ["sk-\u20ac", "sk-1\nsk-2"])
def test_a_key_that_cannot_be_sent_is_said_and_not_shown(key: str) -> None:
    why = catalogue({"OPENAI_API_KEY": key}).why_not_ready("gpt-4.1")
    assert "OPENAI_API_KEY" in why
    assert "sk-" not in why


def test_nothing_is_wrong_where_no_model_is_set_up() -> None:
    assert catalogue({}).problems() == ()


def test_a_role_without_its_model_is_wrong_from_the_start() -> None:
    models = catalogue(
        {"OPENAI_API_KEY": "o"},
        default_llm="gpt-4.1",
        default_embedding_model="text-embedding-3-small",
        llms={"best": "claude-opus-4-8", "cheapest": "gpt-4.1-nano", "odd": "nonsense"},
        embedding_services={"fast": "text-embedding-3-small", "sharp": "nonsense"},
    )
    best, odd, sharp = models.problems()
    assert best.startswith("role 'best' (llms): anthropic has no key")
    assert odd.startswith("role 'odd' (llms): Unknown model 'nonsense'")
    assert sharp.startswith("role 'sharp' (embedding_services): Unknown model 'nonsense'")


def test_a_provider_that_nobody_knows_is_wrong_from_the_start() -> None:
    (problem,) = catalogue(providers={"opnai": {"api_key": "o"}, "mine": {"base_url": "http://localhost:1"}}).problems()
    assert problem.startswith("providers.opnai: Unknown provider 'opnai'. Did you mean 'openai'?")


def test_the_guides_name_of_googles_own_api_is_known() -> None:
    models = catalogue({}, providers={"googlegenai": {"api_key": "g"}}, default_llm="gemini-2.5-flash")
    (card,) = models.cards()
    assert card.provider == "google"
    assert not any("has no key" in problem or "Unknown" in problem for problem in models.problems())


def test_a_default_that_was_chosen_must_be_ready() -> None:
    (problem,) = catalogue({}, default_llm="claude-opus-4-8").problems()
    assert problem.startswith("default_llm: anthropic has no key")


def test_who_has_the_key_of_another_provider_is_told_so() -> None:
    (problem,) = catalogue({"ANTHROPIC_API_KEY": "a", "MISTRAL_API_KEY": "m"}, default_llm="gpt-4.1").problems()
    assert "openai has no key. Set OPENAI_API_KEY" in problem
    there = "There are keys for: anthropic, mistral. To use one, name a model of that provider in [models]."
    assert problem.endswith(there)


async def test_a_model_of_ones_own_is_asked_by_its_name() -> None:
    models = Models(models=[PARROT], environment={})
    for options in (LlmOptions(model="parrot"), LlmOptions(model="zoo:parrot"), LlmOptions(), LlmOptions(auto=True)):
        assert (await models.choose(options).reply(call("Hello"))).message.content == "Hello"
    assert models.cards()[0] == PARROT.card


def test_a_chosen_default_goes_before_a_model_of_ones_own() -> None:
    settings = ModelsSettings(default_llm="gpt-4.1", llms={"best": "parrot"})
    models = Models(settings, models=[PARROT], environment=KEYS)
    assert chosen(models) == "openai:gpt-4.1"
    assert chosen(models, role="best") == "zoo:parrot"
    assert models.problems() == ()


async def test_an_embedding_service_of_ones_own_is_used() -> None:
    settings = ModelsSettings(embedding_services={"fast": "lengths"})
    models = Models(settings, embeddings=[Lengths("lengths")], environment={})
    for name in ("", "lengths", "fast"):
        assert await models.embedding(name).embed(["four"]) == [[4.0]]
    assert models.problems() == ()


def test_without_an_embedding_model_it_is_said_what_to_set() -> None:
    with pytest.raises(ModelNotReady, match="Set default_embedding_model"):
        catalogue().embedding()
    with pytest.raises(ModelNotReady, match="anthropic has no embedding models"):
        catalogue().embedding("claude-opus-4-8")


@pytest.mark.parametrize("name", ["mistral-7b-instruct", "claude-like", "gemini-clone", "house"])
async def test_a_custom_model_with_an_address_is_spoken_to_as_openai_whatever_its_name_is(name: str) -> None:
    async with serving(chat("Hello")) as server:
        models = catalogue({}, custom=[{"name": name, "base_url": f"{server.address}/v1"}])
        model = models.choose(LlmOptions(model=name))
        assert (model.card.provider, model.card.name) == ("openai", name)
        await model.reply(call("Hello"))
        await models.aclose()
    assert server.bodies[0]["model"] == name


async def test_a_custom_model_is_known_by_what_the_settings_say_of_it() -> None:
    async with serving(chat("Hello")) as server:
        custom = {
            "name": "great",
            "provider": "me",
            "model": "my-great-model",
            "base_url": f"{server.address}/v1",
            "knowledge_cutoff": "2025-01-01",
            "prices": {"input": 0.4, "output": 1.6},
            "contributors": ["Be brief."],
        }
        models = catalogue({}, custom=[custom], llms={"best": "great"})
        model = models.choose(LlmOptions(role="best"))
        assert model.card == ModelCard(
            name="great",
            provider="me",
            knowledge_cutoff=date(2025, 1, 1),
            prices=Prices(input=0.4, output=1.6),
            contributors=("Be brief.",),
        )
        reply = await model.reply(call("Hello"))
        await models.aclose()
    assert reply.usage.cost == pytest.approx(0.4 + 0.8)
    assert server.bodies[0]["model"] == "my-great-model"
    assert model.card in models.cards()


async def test_more_can_be_said_of_a_model_that_is_known() -> None:
    models = catalogue(custom=[{"name": "gpt-4.1", "knowledge_cutoff": "2024-06-01", "vision": True}])
    card = models.choose(LlmOptions(model="gpt-4.1")).card
    assert (card.provider, card.knowledge_cutoff, card.vision) == ("openai", date(2024, 6, 1), True)


async def test_any_server_that_speaks_as_openai_does_can_be_a_provider() -> None:
    async with serving(chat("Hello")) as server:
        models = catalogue({}, providers={"mine": {"base_url": f"{server.address}/v1"}})
        assert (await models.choose(LlmOptions(model="mine:llama")).reply(call("Hi"))).message.content == "Hello"
        await models.aclose()
    assert server.paths == ["/v1/chat/completions"]
    assert "MINE_API_KEY" in catalogue({}, providers={"mine": {}}).why_not_ready("mine:llama")


async def test_an_openai_address_of_ones_own_gets_names_that_nobody_else_knows() -> None:
    async with serving(chat("Hello")) as server:
        models = catalogue({"OPENAI_BASE_URL": f"{server.address}/v1", "OPENAI_API_KEY": "o"})
        await models.choose(LlmOptions(model="nonsense")).reply(call("Hi"))
        await models.aclose()
    assert server.bodies[0]["model"] == "nonsense"


@pytest.mark.parametrize("url", ["{}", "{}/", "{}/v1", "{}/v1/", " {}/v1\n", "{}/v1/chat/completions"])
async def test_an_address_is_completed_as_the_guide_writes_it(url: str) -> None:
    async with serving(chat("Hello")) as server:
        models = catalogue({"OPENAI_BASE_URL": url.format(server.address), "OPENAI_API_KEY": " o\n"})
        await models.choose(LlmOptions()).reply(call("Hi"))
        await models.aclose()
    assert server.paths == ["/v1/chat/completions"]


async def test_openais_paths_can_be_others() -> None:
    environment = {
        "OPENAI_API_KEY": "o",
        "OPENAI_COMPLETIONS_PATH": "/odd/completions",
        "OPENAI_EMBEDDINGS_PATH": "odd/embeddings",
    }
    async with serving(chat("Hello"), error(404, "No")) as server:
        models = catalogue(environment | {"OPENAI_BASE_URL": server.address})
        await models.choose(LlmOptions()).reply(call("Hi"))
        with pytest.raises(Exception, match="404"):
            await models.embedding("text-embedding-3-small").embed(["cat"])
        await models.aclose()
    assert server.paths == ["/odd/completions", "/odd/embeddings"]


def test_gemini_has_two_doors() -> None:
    def provider(**environment: str) -> str:
        (card,) = catalogue(environment, default_llm="gemini-2.5-pro").cards()
        return card.provider

    assert provider(GEMINI_API_KEY="g", GOOGLE_API_KEY="g") == "gemini"
    assert provider(GOOGLE_API_KEY="g") == "google"
    assert provider(GOOGLE_PROJECT_ID="p", GOOGLE_LOCATION="global") == "google"
    assert provider() == "gemini"


@pytest.mark.parametrize("name", ["google:gemini-2.5-pro", "mistral-large", "us.anthropic.claude-opus-4-8-v1:0"])
def test_a_provider_whose_library_is_not_there_says_how_to_install_it(name: str) -> None:
    models = catalogue({"GOOGLE_API_KEY": "g", "MISTRAL_API_KEY": "m"}, default_llm=name)
    (card,) = models.cards()
    library = {"google": "google.genai", "mistral": "mistralai", "bedrock": "boto3"}[card.provider]
    assert (f"pip install 'goalport[{card.provider}]'" in models.why_not_ready(name)) is not _installed(library)


def test_settings_that_nobody_knows_are_refused() -> None:
    with pytest.raises(ValidationError, match="defualt_llm"):
        ModelsSettings.model_validate({"defualt_llm": "x"})
    with pytest.raises(ValidationError, match="max_atempts"):
        ModelsSettings.model_validate({"providers": {"openai": {"max_atempts": 1}}})


def test_the_guides_defaults_hold() -> None:
    settings = ModelsSettings.model_validate({"providers": {"openai": {"multiplier": 2, "max_interval": 7}}})
    openai = settings.providers["openai"]
    assert (openai.max_attempts, openai.backoff_millis) == (10, 5_000)
    assert (openai.backoff_multiplier, openai.backoff_max_interval) == (2, 7)
    assert settings.default_llm == "gpt-4.1-mini"


def test_a_key_is_never_shown() -> None:
    settings = ModelsSettings.model_validate({"providers": {"openai": {"api_key": "sk-very-secret"}}})
    assert "sk-very-secret" not in repr(settings) + settings.model_dump_json()


def test_no_providers_library_is_imported_before_a_model_is_chosen() -> None:
    code = (
        "import sys; from goalport.models.llm import Models, ModelsSettings;"
        "models = Models(ModelsSettings(llms={'best': 'gpt-4.1'}), environment={'OPENAI_API_KEY': 'o'});"
        "models.problems(), models.cards(), models.why_not_ready('claude-opus-4-8');"
        "print([each for each in ('pydantic_ai', 'openai', 'anthropic', 'httpx2') if each in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
