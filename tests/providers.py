"""Model providers for tests: aimock (npm, a mock that nobody here wrote) on a free port of the loopback interface.

The fixture `aimock` is there for every test. It answers at once and as told, with the wire formats of OpenAI (chat,
responses, embeddings), Anthropic, Gemini, Ollama, Bedrock and Azure:

    async def test_a_story_is_told(aimock: Providers) -> None:
        aimock.answer("Tell me a story", content="Once upon a time")
        models = Models(ModelsSettings(default_llm="openai:gpt-4.1-mini"), environment=aimock.environment)

`aimock.environment` has the keys and addresses of OpenAI, Anthropic, Gemini, DeepSeek and Ollama, for `Models`, or for
a server that is started as a process. `aimock.requests()` are the bodies of the requests that came. What is no test
(a benchmark) uses `with mock_providers() as aimock`. `make clients` installs it; without it the tests are skipped.
"""

import os
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.clients.running import CLIENTS, NODE_PACKAGES, lack, started

__all__ = ["Providers", "aimock", "mock_providers", "provider_process"]

_READY = re.compile(r"listening on (?P<address>http://127\.0\.0\.1:\d+)")
_MAIN = NODE_PACKAGES / "@copilotkit" / "aimock" / "dist" / "cli.js"
_MISSING = "The mock of model providers (npm's @copilotkit/aimock) is not there: run `make clients`"


@dataclass(frozen=True)
class Providers:
    """Every provider at one address."""

    address: str
    _client: httpx2.Client = field(repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead each provider's models here."""
        return {
            "OPENAI_API_KEY": "sk-test-openai",
            "OPENAI_BASE_URL": f"{self.address}/v1",
            "ANTHROPIC_API_KEY": "sk-test-anthropic",
            "ANTHROPIC_BASE_URL": self.address,
            "GEMINI_API_KEY": "test-gemini",
            "GEMINI_BASE_URL": f"{self.address}/v1beta/openai",
            "DEEPSEEK_API_KEY": "sk-test-deepseek",
            "DEEPSEEK_BASE_URL": f"{self.address}/v1",
            "OLLAMA_BASE_URL": f"{self.address}/v1",
        }

    def answer(
        self, to: str | Mapping[str, Any] = "", options: Mapping[str, Any] | None = None, **response: Any
    ) -> None:
        """Answer requests so from now on; of the answers that fit, the one that was given first counts.

        `to`: a piece of the last user message, or aimock's match (`turnIndex`, `hasToolResult`, `sequenceIndex`,
        `toolResultContains`, `systemMessage`, `model`, `inputText`); empty: any request. `response`: aimock's, like
        `content="…"` (an object is written as JSON), `toolCalls=[{"name": …, "arguments": {…}}]`, `reasoning="…"`,
        `usage={…}`, `finishReason="…"`, `embedding=[…]`, or `error={"message": …}` with `status` and `retryAfter`.
        `options`: what stands beside them, like `chunkSize`, `truncateAfterChunks`, `disconnectAfterMs`, `chaos`.
        """
        match = {"userMessage": to} if isinstance(to, str) and to else dict(to or {})
        self._post("fixtures", {"fixtures": [{"match": match, "response": response, **(options or {})}]})

    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the requests for models, the oldest first; in OpenAI's chat form, whoever they were for."""
        return [entry["body"] for entry in self.journal()]

    def journal(self) -> list[dict[str, Any]]:
        """The requests for models, the oldest first: `method`, `path`, `headers`, `body`, `response`."""
        response = self._client.get("/__aimock/journal").raise_for_status()
        return list(response.json())

    def forget(self) -> None:
        """Forget all answers and requests."""
        self._post("reset", {})

    def _post(self, path: str, body: Mapping[str, Any]) -> None:
        response = self._client.post(f"/__aimock/{path}", json=body)
        assert response.is_success, response.text


@contextmanager
def mock_providers() -> Generator[Providers]:
    """Serve until the block ends."""
    command = [str(NODE_PACKAGES / "node" / "bin" / "node"), str(_MAIN), "--port", "0", "--log-level", "info"]
    # It says on stdout that it is ready, and wants a file of answers, which may have none.
    fixtures = str(Path(__file__).with_name("no_answers.json"))
    redirected = ["sh", "-c", 'exec "$@" >&2', "sh", *command, "--fixtures", fixtures]
    with started(redirected, _READY, dict(os.environ)) as ready:
        address = ready["address"]
        with httpx2.Client(base_url=address, timeout=10, trust_env=False) as client:
            yield Providers(address, client)


@pytest.fixture(scope="session")
def provider_process() -> Iterator[Providers]:
    lock, copy = CLIENTS / "node" / "package-lock.json", NODE_PACKAGES / ".prepared"
    if not (_MAIN.is_file() and copy.is_file() and copy.read_bytes() == lock.read_bytes()):
        lack(_MISSING)
    from goalport.models.llm.dialects import ANTHROPIC, OPENAI

    # Importing these takes seconds on a busy machine, which no test's time limit should have to hold.
    for name in ("goalport.models.llm.adapter", *OPENAI.imports, *ANTHROPIC.imports):
        import_module(name)
    with mock_providers() as providers:
        yield providers


@pytest.fixture
def aimock(provider_process: Providers) -> Providers:
    """Model providers that have been told nothing yet."""
    provider_process.forget()
    return provider_process
