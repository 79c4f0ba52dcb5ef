"""Servers that answer what aimock cannot: pages, half answers, refusals, nothing at all. No test is in here."""

import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from goalport.models.llm import LanguageModel, LlmOptions, Models, ModelsSettings, ProviderSettings

KEY = "sk-very-secret"
Answer = Callable[[dict[str, Any]], Awaitable[Response]]


@dataclass
class StrangeServer:
    """A server that answers whatever the path is; it keeps what came."""

    address: str
    answers: Sequence[Answer] = ()
    """One after another, and the last one from then on."""
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    paths: list[str] = field(default_factory=list[str])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    asked: anyio.Event = field(default_factory=anyio.Event)
    """Set when a client has asked."""
    gone: anyio.Event = field(default_factory=anyio.Event)
    """Set when a client went away before it was answered."""
    catalogues: list[Models] = field(default_factory=list[Models])

    def answer(self, *answers: Answer) -> None:
        """Answer so from now on, and forget what came."""
        self.answers = answers
        for kept in (self.bodies, self.paths, self.headers):
            kept.clear()
        self.asked, self.gone = anyio.Event(), anyio.Event()

    def models(self, **settings: object) -> Models:
        """A catalogue whose OpenAI and Anthropic are this server; it waits a millisecond between attempts.

        It is closed with the server. `settings` are the providers'.
        """
        patience = {"max_attempts": 3, "backoff_millis": 1, "backoff_max_interval": 1_000} | settings
        reached = dict.fromkeys(("openai", "mine", "ollama"), f"{self.address}/v1") | {"anthropic": self.address}
        providers = {
            name: ProviderSettings.model_validate({"base_url": url, "api_key": KEY} | patience)
            for name, url in reached.items()
        }
        self.catalogues.append(Models(ModelsSettings(providers=providers), environment={}))
        return self.catalogues[-1]

    def model(self, name: str = "gpt-4.1-mini", **settings: object) -> LanguageModel:
        return self.models(**settings).choose(LlmOptions(model=name))

    def blind_model(self) -> LanguageModel:
        """One whose settings say that it sees no images."""
        custom = {"name": "blind", "provider": "mine", "base_url": f"{self.address}/v1", "vision": False}
        self.catalogues.append(Models(ModelsSettings.model_validate({"custom": [custom]}), environment={}))
        return self.catalogues[-1].choose(LlmOptions(model="blind"))


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncGenerator[StrangeServer]:
    """A server that gives these answers one after another, and the last one from then on."""
    server = StrangeServer("", answers)

    async def respond(request: Request) -> Response:
        server.bodies.append(await request.json())
        server.paths.append(request.url.path)
        server.headers.append(dict(request.headers))
        server.asked.set()
        answer = server.answers[min(len(server.bodies), len(server.answers)) - 1]
        response = await _while_heard(request, answer(server.bodies[-1]))
        if response is None:
            server.gone.set()
        return response or Response(status_code=499)

    app = Starlette(routes=[Route("/{path:path}", respond, methods=["POST"])])
    web = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as tasks:
            server.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
            tasks.start_soon(web.serve, [listener])
            try:
                yield server
            finally:
                for each in server.catalogues:
                    await each.aclose()
                web.should_exit = True
                web.force_exit = True


async def _while_heard(request: Request, answer: Awaitable[Response]) -> Response | None:
    """The answer; None when the client went away before: an ASGI server leaves it to the application to notice."""
    responses: list[Response] = []
    async with anyio.create_task_group() as tasks:

        async def work() -> None:
            responses.append(await answer)
            tasks.cancel_scope.cancel()

        async def listen() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(work)
        tasks.start_soon(listen)
    return responses[0] if responses else None


def page(status: int = 200) -> Answer:
    async def answer(_: dict[str, Any]) -> Response:
        return HTMLResponse("<!doctype html><html><body>Please log in</body></html>", status)

    return answer


def body(text: str, status: int = 200) -> Answer:
    """Something that claims to be JSON."""

    async def answer(_: dict[str, Any]) -> Response:
        return Response(text, status, media_type="application/json")

    return answer


def error(status: int, message: str, headers: dict[str, str] | None = None, **more: Any) -> Answer:
    async def answer(_: dict[str, Any]) -> Response:
        return JSONResponse({"error": {"message": message, **more}}, status, headers)

    return answer


def chat(content: str | None, tokens: tuple[int, int] | None = (1_000_000, 500_000), **message: Any) -> Answer:
    """A chat completion, as OpenAI gives it; `tokens` of input and output are counted."""

    async def answer(request: dict[str, Any]) -> Response:
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content, **message}}
        about = {"id": "c1", "object": "chat.completion", "created": 1, "model": request["model"]}
        if tokens is None:
            return JSONResponse({**about, "choices": [choice]})
        usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
        return JSONResponse({**about, "choices": [choice], "usage": usage})

    return answer


def responses(*content: dict[str, Any]) -> Answer:
    """A response, as OpenAI's newer API gives it."""

    async def answer(request: dict[str, Any]) -> Response:
        message = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": list(content)}
        about = {"id": "r1", "object": "response", "created_at": 1, "model": request["model"], "status": "completed"}
        more = {"output": [message], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return JSONResponse(about | more)

    return answer


def claude(*content: dict[str, Any], stop: str = "end_turn") -> Answer:
    """A message, as Anthropic gives it."""

    async def answer(request: dict[str, Any]) -> Response:
        about = {"id": "m1", "type": "message", "role": "assistant", "model": request["model"]}
        usage = {"input_tokens": 1, "output_tokens": 1}
        end = {"stop_reason": stop, "stop_sequence": None}
        return JSONResponse(about | end | {"content": list(content), "usage": usage})

    return answer


def embeddings(*vectors: Sequence[float], tokens: int = 0) -> Answer:
    """Vectors, as OpenAI gives them."""

    async def answer(request: dict[str, Any]) -> Response:
        data = [{"object": "embedding", "index": number, "embedding": each} for number, each in enumerate(vectors)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return JSONResponse({"object": "list", "data": data, "model": request["model"], "usage": usage})

    return answer


def stream(*pieces: dict[str, Any], ended: bool) -> Answer:
    """The deltas of a chat completion; without `ended`, the server simply stops."""

    async def answer(request: dict[str, Any]) -> Response:
        async def lines() -> AsyncIterator[str]:
            for piece in pieces:
                choice = {"index": 0, "delta": piece, "finish_reason": None}
                yield _event(request, choice)
            if ended:
                yield _event(request, {"index": 0, "delta": {}, "finish_reason": "stop"})
                yield "data: [DONE]\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")

    return answer


def sse(*events: dict[str, Any] | str) -> Answer:
    """These events as they are, and no more; a text stands for itself."""

    async def answer(_: dict[str, Any]) -> Response:
        async def lines() -> AsyncIterator[str]:
            for each in events:
                name = f"event: {each['type']}\n" if isinstance(each, dict) and "type" in each else ""
                yield f"{name}data: {each if isinstance(each, str) else json.dumps(each)}\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")

    return answer


def _event(request: dict[str, Any], choice: dict[str, Any]) -> str:
    event = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": request["model"]}
    return f"data: {json.dumps(event | {'choices': [choice]})}\n\n"


async def silence(_: dict[str, Any]) -> Response:
    """Never answers; the client must give up."""
    await anyio.sleep_forever()
    raise AssertionError
