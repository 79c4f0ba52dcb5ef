"""A key goes to the provider that it belongs to, and to no other address: whatever is in settings and environment."""

from collections.abc import Mapping

import pytest

from goalport.base.errors import ModelError, ModelNotReady, ModelRefused
from goalport.models.llm import LlmOptions, Models, ModelsSettings
from tests.rooms.llm.asking import call
from tests.rooms.llm.servers import Answer, StrangeServer, chat, claude, embeddings, error, serving

KEYS = {
    "OPENAI_API_KEY": "secret-1",
    "AZURE_OPENAI_API_KEY": "secret-2",
    "ANTHROPIC_API_KEY": "secret-3",
    "DEEPSEEK_API_KEY": "secret-4",
    "GEMINI_API_KEY": "secret-5",
    "MISTRAL_API_KEY": "secret-6",
    "AWS_BEARER_TOKEN_BEDROCK": "secret-7",
    "HOUSE_API_KEY": "secret-8",
}
READ_BY_LIBRARIES = {
    "OPENAI_ADMIN_KEY": "secret-9",
    "OPENAI_ORG_ID": "secret-10",
    "OPENAI_PROJECT_ID": "secret-11",
    "OPENAI_CUSTOM_HEADERS": "X-Corp: secret-12",
    "AZURE_OPENAI_AD_TOKEN": "secret-13",
    "ANTHROPIC_AUTH_TOKEN": "secret-14",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Corp: secret-15",
}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**KEYS, **READ_BY_LIBRARIES}.items():
        monkeypatch.setenv(name, value)


def house(server: StrangeServer, environment: Mapping[str, str] = KEYS, /, **own: object) -> Models:
    """The example of docs/settings.md, at the address of a server."""
    custom = {"name": "house", "base_url": f"{server.address}/v1"} | own
    settings = {"custom": [custom], "providers": {"openai": {"api_key": "secret-16", "max_attempts": 1}}}
    server.catalogues.append(Models(ModelsSettings.model_validate(settings), environment=environment))
    return server.catalogues[-1]


def heard(server: StrangeServer) -> str:
    """All that came in headers."""
    return "\n".join(f"{name}: {value}" for each in server.headers for name, value in each.items())


@pytest.mark.parametrize(
    ("own", "answer"),
    [
        ({}, chat("Hello")),
        ({"provider": "openai"}, chat("Hello")),
        ({"provider": "OpenAI"}, chat("Hello")),
        ({"provider": "azure"}, chat("Hello")),
        ({"provider": "deepseek"}, chat("Hello")),
        ({"provider": "gemini"}, chat("Hello")),
        ({"provider": "ollama"}, chat("Hello")),
        ({"provider": "house"}, chat("Hello")),
        ({"provider": "anthropic"}, claude({"type": "text", "text": "Hello"})),
        ({"name": "gpt-house"}, chat("Hello")),
        ({"name": "claude-house"}, chat("Hello")),
        ({"name": "anthropic:claude-house"}, claude({"type": "text", "text": "Hello"})),
    ],
)
async def test_a_model_at_its_own_address_is_asked_without_anybodys_key(own: dict[str, str], answer: Answer) -> None:
    async with serving(answer) as server:
        model = house(server, **own).choose(LlmOptions(model=own.get("name", "house")))
        assert (await model.reply(call("Hello"))).message.content == "Hello"
    assert "secret" not in heard(server)
    assert not {"authorization", "x-api-key", "api-key"} & server.headers[0].keys()


async def test_a_model_at_its_own_address_needs_no_key_of_its_provider() -> None:
    async with serving(chat("Hello")) as server:
        for provider in ("", "openai", "mine"):
            models = house(server, {}, provider=provider)
            assert models.why_not_ready("house") == ""
            assert (await models.choose(LlmOptions(model="house")).reply(call("Hello"))).message.content == "Hello"


@pytest.mark.parametrize("provider", ["", "openai", "azure", "mine"])
async def test_a_model_at_its_own_address_is_given_its_own_key(provider: str) -> None:
    async with serving(chat("Hello")) as server:
        model = house(server, provider=provider, api_key="mine-1").choose(LlmOptions(model="house"))
        await model.reply(call("Hello"))
    assert "Bearer mine-1" in heard(server)
    assert "secret" not in heard(server)


async def test_texts_are_embedded_at_a_models_own_address_without_anybodys_key() -> None:
    async with serving(embeddings([1.0])) as server:
        assert await house(server).embedding("house").embed(["cat"]) == [[1.0]]
    assert "secret" not in heard(server)


async def test_a_model_at_its_own_address_is_asked_there_under_its_providers_name_too() -> None:
    async with serving(chat("Hello")) as server:
        for own in ({}, {"name": "gpt-house"}, {"provider": "mine"}):
            models = house(server, **own)
            (card,) = [each for each in models.cards() if "house" in each.name]
            model = models.choose(LlmOptions(model=f"{card.provider}:{card.name}"))
            assert (await model.reply(call("Hello"))).message.content == "Hello"
    assert "secret" not in heard(server)


async def test_a_model_at_its_own_address_is_asked_at_the_usual_paths_there() -> None:
    paths = {"OPENAI_COMPLETIONS_PATH": "/inside/chat", "OPENAI_EMBEDDINGS_PATH": "/inside/vectors"}
    async with serving(chat("Hello"), embeddings([1.0])) as server:
        models = house(server, {**KEYS, **paths})
        await models.choose(LlmOptions(model="house")).reply(call("Hello"))
        await models.embedding("house").embed(["cat"])
    assert server.paths == ["/v1/chat/completions", "/v1/embeddings"]


def test_a_model_may_name_its_provider_as_the_guide_does() -> None:
    custom = [{"name": "house", "provider": "googlegenai"}]
    told = Models(ModelsSettings.model_validate({"custom": custom}), environment={}).why_not_ready("house")
    assert told.startswith(("Models of google need", "google has no key"))


async def test_a_key_that_is_refused_is_looked_for_where_it_is_set() -> None:
    async with serving(error(401, "Who are you?")) as server:
        with pytest.raises(ModelRefused, match=r"Check api_key of the model in \[\[models.custom\]\]"):
            await house(server).choose(LlmOptions(model="house")).reply(call("Hello"))


@pytest.mark.parametrize("name", ["azure", "deepseek", "gemini", "ollama", "mine", "Anthropic"])
async def test_what_the_libraries_read_for_another_provider_stays_here(name: str) -> None:
    async with serving(chat("Hello")) as server:
        providers = {name: {"base_url": f"{server.address}/v1", "api_key": "mine-1"}}
        server.catalogues.append(Models(ModelsSettings.model_validate({"providers": providers}), environment={}))
        await server.catalogues[-1].choose(LlmOptions(model=f"{name}:a")).reply(call("Hello"))
    assert "mine-1" in heard(server)
    assert "secret" not in heard(server)


async def test_a_provider_of_ones_own_takes_no_key_that_is_known_as_anothers() -> None:
    async with serving(chat("Hello")) as server:
        providers = {"OpenAI": {"base_url": f"{server.address}/v1"}, "house": {"base_url": f"{server.address}/v1"}}
        server.catalogues.append(Models(ModelsSettings.model_validate({"providers": providers}), environment=KEYS))
        await server.catalogues[-1].choose(LlmOptions(model="OpenAI:a")).reply(call("Hello"))
        assert "secret" not in heard(server)
        await server.catalogues[-1].choose(LlmOptions(model="house:a")).reply(call("Hello"))
    assert server.headers[-1]["authorization"] == "Bearer secret-8"


async def test_a_redirect_takes_no_key_elsewhere() -> None:
    async with serving(chat("Hello")) as elsewhere:
        moved = error(307, "Moved", {"location": f"{elsewhere.address}/v1/chat/completions"})
        async with serving(moved) as server:
            for name in ("gpt-4.1-mini", "anthropic:claude-haiku-4-0"):
                with pytest.raises(ModelError):
                    await server.model(name, max_attempts=1).reply(call("Hello"))
    assert not elsewhere.bodies


def test_a_provider_at_its_usual_address_still_wants_its_key() -> None:
    with pytest.raises(ModelNotReady, match="OPENAI_API_KEY"):
        Models(environment={}).choose(LlmOptions(model="gpt-4.1"))
