"""A provider of models that costs next to nothing: one constant chat completion, in OpenAI's form.

`python -m benchmarks.provider`. What it was asked last is at `/last`; below `/slow/`, answers take 100 ms. It knows
nothing of goalport: only the wire.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn

from benchmarks.listening import listen

__all__ = ["CONTENT"]

CONTENT: Final = {
    "title": "Otters elect a mayor",
    "tags": ["otters", "elections", "rivers"],
    "paragraphs": ["Her programme is more fish and fewer boats."] * 3,
    "rating": 4,
}
"""The object that its model always gives."""
_COMPLETION: Final[dict[str, Any]] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1_790_000_000,
    "model": "gpt-4.1-mini-2025-04-14",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "logprobs": None,
            "message": {"role": "assistant", "content": json.dumps(CONTENT), "refusal": None, "annotations": []},
        }
    ],
    "usage": {
        "prompt_tokens": 120,
        "completion_tokens": 80,
        "total_tokens": 200,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    },
    "service_tier": "default",
    "system_fingerprint": "fp_1",
}
_ANSWER: Final = json.dumps(_COMPLETION).encode()
_last = b"{}"


async def app(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Answer a request: as a bare ASGI application, since a framework would cost more than the answer."""
    global _last  # noqa: PLW0603 - one process, one thread, one purpose
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    answer = _last if scope["path"] == "/last" else _ANSWER
    if scope["method"] == "POST":
        _last = body
    if scope["path"].startswith("/slow/"):
        await asyncio.sleep(0.1)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def main() -> None:
    """Serve until somebody ends the process."""
    config = uvicorn.Config(app, log_level="warning", lifespan="off", access_log=False)
    uvicorn.Server(config).run(sockets=[listen()])


if __name__ == "__main__":
    main()
