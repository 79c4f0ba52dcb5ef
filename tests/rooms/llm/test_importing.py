"""The libraries of providers take seconds to import: they are imported off the event loop, and only when asked."""

import subprocess
import sys

import pytest
from anyio.to_thread import run_sync

from tests.rooms.llm.servers import chat, claude, embeddings, responses, serving

ASKED = """
import sys, threading
import anyio
from goalport.models.llm import LlmOptions, ModelCall, Models, ModelsSettings, UserMessage

on_the_loop = []

class Watch:
    def find_spec(self, name, *_):
        if threading.current_thread() is threading.main_thread():
            on_the_loop.append(name)

async def main(address, *names):
    at = dict.fromkeys(("openai", "azure", "deepseek", "ollama"), address + "/v1") | {"anthropic": address}
    made = {each: {"base_url": url, "api_key": "k"} for each, url in at.items()}
    models = Models(ModelsSettings.model_validate({"providers": made}), environment={})
    sys.meta_path.insert(0, Watch())
    call = ModelCall(messages=(UserMessage("Hello"),))
    for name in names:
        await models.choose(LlmOptions(model=name)).reply(call)
    await models.embedding("text-embedding-3-small").embed(["cat"])
    heavy = ("openai", "anthropic", "pydantic_ai", "genai_prices", "httpx2")
    print([each for each in on_the_loop if each.startswith(heavy)])
    await models.aclose()

anyio.run(main, *sys.argv[1:])
"""
ANSWERS = {
    "gpt-4.1-mini": chat("Hello"),
    "openai-responses:gpt-4.1-mini": responses({"type": "output_text", "text": "Hi", "annotations": []}),
    "azure:gpt-4.1-mini": chat("Hello"),
    "deepseek:chat": chat("Hello"),
    "ollama:llama": chat("Hello"),
    "anthropic:claude-haiku-4-0": claude({"type": "text", "text": "Hello"}),
}


@pytest.mark.parametrize("names", [list(ANSWERS), list(ANSWERS)[::-1]], ids=["forwards", "backwards"])
async def test_the_first_request_to_each_provider_imports_nothing_on_the_event_loop(names: list[str]) -> None:
    async with serving(*(ANSWERS[each] for each in names), embeddings([1.0])) as server:
        command = [sys.executable, "-c", ASKED, server.address, *names]
        done = await run_sync(lambda: subprocess.run(command, capture_output=True, text=True, timeout=120, check=False))
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
