"""A client of a running server, with a sentence for each kind of failed request, and the caller's processes there.

The key is sent and never printed. Processes are JSON data of the same form as those of the store.
"""

import json
import os
import re
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Self, cast
from urllib.parse import quote, urlsplit

import anyio
import httpx2

from goalport.base.errors import BadInput, GoalportError, causes
from goalport.base.hosts import http_url
from goalport.base.secrecy import hide
from goalport.base.words import cleaned, one_line
from goalport.cli.options import FAILED
from goalport.cli.process_sources import JsonObject, OpenQuestion, Page
from goalport.cli.terminal import Record, local_time, say, show_result
from goalport.server.auth.keys import KEY_VARIABLE

_VARIABLES: Final = (KEY_VARIABLE, "GOALPORT_TOKEN")
"""The environment variables with a key or token for the server; the first one that is set is sent."""
_PROBLEM: Final = "urn:goalport:problem:"
_NO_RESULT: Final = f"{_PROBLEM}no-result"
"""The problem type of a process that ended without a result; its body is still the one that was requested."""
_TIMEOUT: Final = httpx2.Timeout(10, read=90)
_FIRST_DELAY, _LONGEST_DELAY, _TRIES = 0.25, 5.0, 20
_NO_REST: Final = (
    "Its REST door is closed. Open it with the setting rest = true there; what reads the store needs no door."
)
_ENDPOINTS: Final = ("/mcp", "/sse", "/api/v1/process", "/health")
"""Paths that a pasted address of the server may end with; they are removed."""
_REASONS: Final[Mapping[type, str]] = {
    httpx2.ConnectError: "No server answers there. Start one with `goalport serve`, or name another with --server.",
    httpx2.ConnectTimeout: f"It did not accept a connection within {_TIMEOUT.connect:g} s.",
    httpx2.ReadTimeout: f"It did not answer within {_TIMEOUT.read:g} s.",
    httpx2.RemoteProtocolError: "What answers there is no HTTP server.",
}
_PROCESSES: Final = "/api/v1/processes"
_LARGEST_PAGE: Final = 500
_WAIT_SECONDS: Final = 60
_ENDED: Final = frozenset({"completed", "failed", "terminated", "killed"})
_GOES_ON: Final = frozenset({"not_started", "running", "paused"})
_LEFT_OUT: Final = {"prompt": "", "reply": "", "arguments": "", "result": ""}
"""The fields of stored events that REST leaves out, with empty values."""


class ServerRefusal(GoalportError):
    """A server has answered and refused the request."""


class ServerUnavailable(GoalportError):
    """A server cannot be reached, or cannot answer now."""


_PROBLEMS: Final[Mapping[int, type[GoalportError]]] = {404: BadInput, 503: ServerUnavailable}
"""The errors for problem details of the server, by status; for other statuses it is `ServerRefusal`."""


def address_in(host: str, port: int) -> str:
    """The URL of a server with these settings. Raises `BadInput` if the port is 0, so that the URL is unknown."""
    if port == 0:
        raise BadInput(
            "The setting port is 0, so the server took any free port. Give --server the address that it printed."
        )
    return http_url(host, port)


class ServerClient:
    """A client of one server; its connections are closed at the end of `async with`."""

    def __init__(self, address: str, hint: str = "") -> None:
        place = address.strip().rstrip("/")
        valid = place.isprintable() and not set(place) & set("?# ")
        try:
            parts = urlsplit(place)
            valid = valid and parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid:
            given = hide(address)
            raise BadInput(f"Expected --server to be an address such as http://127.0.0.1:8080, but got {given!r}.")
        for each in _ENDPOINTS:
            place = place.removesuffix(each)
        self.shown = hide(place)
        """The address without a password."""
        self._hint = hint
        self._is_plain = place.startswith("http://")
        host = urlsplit(place).hostname or ""
        loopback = host in {"localhost", "::1"} or host.startswith("127.")
        keys = ((name, os.environ.get(name, "").strip()) for name in _VARIABLES)
        self._variable, token = next((each for each in keys if each[1]), ("", ""))
        if token and self._is_plain and not loopback:
            say(f"warning: the key is sent to {host} without encryption; an address with https:// protects it.")
        self._http = httpx2.AsyncClient(
            base_url=place,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=_TIMEOUT,
            # A proxy of the environment cannot reach this machine.
            transport=httpx2.AsyncHTTPTransport() if loopback else None,
        )

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._http.aclose()

    async def send(self, method: str, path: str, member: str, **options: Any) -> Mapping[str, Any]:
        """Send a request, and return the JSON object of the response; it must have the member `member`.

        Raises `ServerUnavailable`, `BadInput` for values that the server refuses or does not know, and otherwise
        `ServerRefusal`.
        """
        try:
            response = await self._http.request(method, path, **options)
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise self._unreachable(error, method) from error
        content = _object_of(response)
        if member in content and (response.is_success or content.get("type") == _NO_RESULT):
            return content
        raise await self._refusal(response, content)

    @asynccontextmanager
    async def _opened(self, method: str, path: str, **options: Any) -> AsyncGenerator[httpx2.EventSource]:
        try:
            async with self._http.sse(path, method=method, **options) as source:
                if not source.response.is_success:
                    await source.response.aread()
                    raise await self._refusal(source.response, _object_of(source.response))
                yield source
        except httpx2.TransportError as error:
            raise self._unreachable(error, method) from error

    async def stream(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any]]:
        """Send a request, and yield the events of its response as JSON objects. Raises the errors of `send`."""
        async with self._opened("POST", path, json=body) as source:
            async for each in source:
                if each.data:
                    yield json.loads(each.data)

    async def events(self, path: str) -> AsyncGenerator[tuple[str, Mapping[str, Any]]]:
        """The events of a stream with their ids. If the connection breaks, it is resumed after the last event."""
        last, tries = "", 0
        while True:
            problem = None
            try:
                async with self._opened("GET", path, headers={"Last-Event-ID": last} if last else {}) as source:
                    if source.response.status_code == HTTPStatus.NO_CONTENT:
                        return
                    async for each in source:
                        last, tries = each.id or last, 0
                        if each.data:
                            yield each.id, json.loads(each.data)
            except ServerUnavailable as error:
                problem = error
                if not tries:
                    say("The connection broke off; connecting again.")
            tries += 1
            if tries > _TRIES:
                raise problem or ServerUnavailable(f"{self.shown} ends its stream of events again and again.")
            if problem is not None or tries > 1:
                await anyio.sleep(min(_FIRST_DELAY * 2 ** (tries - 1), _LONGEST_DELAY))

    def _unreachable(self, error: Exception, method: str) -> ServerUnavailable:
        tls = next((each for each in causes(error, implicit=True) if isinstance(each, ssl.SSLError)), None)
        if isinstance(tls, ssl.SSLCertVerificationError):
            reason = (
                f"Its certificate is not trusted: {tls.verify_message}. If an authority of your own signed it, let the"
                " environment variable SSL_CERT_FILE name the file with that authority's certificate."
            )
        elif tls is not None or "SSL" in str(error):
            reason = "No TLS connection is possible. If the server has no certificate, its address begins with http://."
        else:
            reason = _REASONS.get(type(error), f"The connection to it broke off ({one_line(str(error))}).")
            if not isinstance(error, httpx2.ConnectError):
                if self._is_plain and method == "GET":
                    reason += " If it speaks TLS, its address begins with https://."
                elif method == "POST":
                    reason += " It may have taken the answer all the same: `goalport show` tells."
        return ServerUnavailable(" ".join(filter(None, [f"{self.shown}: {reason}", self._hint])))

    async def _refusal(self, response: httpx2.Response, content: Mapping[str, Any]) -> GoalportError:
        """The error for a response that is not the requested one."""
        status, told = response.status_code, str(content.get("detail") or content.get("error_description") or "")
        told = cleaned(told)
        if str(content.get("type", "")).startswith(_PROBLEM):
            if status != HTTPStatus.UNPROCESSABLE_ENTITY:
                return _PROBLEMS.get(status, ServerRefusal)(told)
            problems: list[str] = []
            for each in cast("list[Mapping[str, str]]", content.get("errors") or []):
                field = each["field"].removeprefix("response").removeprefix(".")
                problems.append(cleaned(f"{field or 'answer'}: {each['detail']}"))
            return BadInput(told, problems)
        if response.headers.get("content-type", "").startswith("text/plain"):
            told = one_line(told or response.text)
        kind: type[GoalportError] = ServerRefusal
        match status:
            case HTTPStatus.UNAUTHORIZED if self._variable:
                reason = f"It does not accept the key in {self._variable}. {told}"
            case HTTPStatus.UNAUTHORIZED:
                reason = f"It wants a key or a token. Put yours into the environment variable {_VARIABLES[0]}."
            case HTTPStatus.FORBIDDEN:
                reason = f"It does not allow that to you. {told}"
            case HTTPStatus.MISDIRECTED_REQUEST | HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                reason = told
            case HTTPStatus.BAD_GATEWAY | HTTPStatus.SERVICE_UNAVAILABLE | HTTPStatus.GATEWAY_TIMEOUT:
                kind, reason = ServerUnavailable, f"It cannot answer now ({status}). {told}"
            case _ if response.is_redirect:
                place = one_line(hide(response.headers.get("location", "")))
                reason = f"It points to {place}. Give --server the address of the server itself."
            case _:
                health: Mapping[str, Any] = {}
                with suppress(httpx2.TransportError):
                    health = _object_of(await self._http.get("/health"))
                hint = " If it speaks TLS, its address begins with https://." if self._is_plain else ""
                reason = f"This is no goalport server, or not its address: it answered with status {status}.{hint}"
                if "status" in health and health.keys() & {"ready", "openCalls"}:
                    reason = _NO_REST
        return kind(f"{self.shown}: {reason.strip()}")


def _object_of(response: httpx2.Response) -> Mapping[str, Any]:
    """The JSON object in a response; empty if there is none."""
    with suppress(ValueError):
        content: object = response.json()
        if isinstance(content, dict):
            return cast("dict[str, Any]", content)
    return {}


class RemoteProcesses:
    """The processes of the caller at a server; with `of_all`, `page` lists the processes of all callers."""

    def __init__(self, address: str, options: str, *, hint: str = "", of_all: bool = False) -> None:
        self.options, self.live = options, True
        self._client = partial(ServerClient, address, hint)
        self._of_all = {"all": True} if of_all else {}

    async def page(self, statuses: Sequence[str], limit: int, after: str) -> Page:
        found: list[Mapping[str, Any]] = []
        more, others = True, False
        async with self._client() as server:
            while more and len(found) < limit:
                size = min(limit - len(found), _LARGEST_PAGE)
                params: dict[str, Any] = {"limit": size, "after": after, "status": [*statuses], **self._of_all}
                page = await server.send("GET", _PROCESSES, "processes", params=params)
                found += page["processes"]
                more = "next" in page["links"]
                after = str(found[-1]["processId"]) if found else ""
            if statuses and not found:
                page = await server.send("GET", _PROCESSES, "processes", params={"limit": 1, **self._of_all})
                others = bool(page["processes"])
        none = f"{'There is' if self._of_all else 'You have'} no process at {server.shown}."
        if others:
            which = f"None of {'the' if self._of_all else 'your'} processes at {server.shown}"
            none = f"{which} runs, waits, rests or is stuck; --all lists the others."
        lines: list[Record] = []
        for each in found:
            line = {"process": each["processId"], "agent": each["agent"]}
            if "caller" in each:
                line["caller"] = f"{each['caller']['id']} {each['caller']['issuer']}".strip()
            ended = each["finishedAt"] if each["status"] in _ENDED else None
            line |= {
                "status": each["status"],
                "created": local_time(datetime.fromisoformat(each["createdAt"])),
                "ended": "" if ended is None else local_time(datetime.fromisoformat(ended)),
                "started_by": each["startedBy"] or "",
            }
            lines.append(line)
        return Page(lines, more, none)

    async def view(self, process_id: str) -> JsonObject:
        async with self._client() as server:
            return await _view(server, process_id)

    async def events(self, process_id: str) -> AsyncGenerator[JsonObject]:
        async with self._client() as server:
            async for number, data in server.events(f"/events/process/{quote(process_id, safe='')}"):
                fields = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): value for name, value in data.items()}
                yield {"event_number": int(number), **_LEFT_OUT, **fields}

    @asynccontextmanager
    async def open_question(
        self, process_id: str, question_id: str | None, *, wait: bool
    ) -> AsyncGenerator[OpenQuestion]:
        path = f"{_path(process_id)}/continue"
        async with self._client() as server:
            view = await _view(server, process_id)
            questions = [each for each in view["questions"] if question_id in {None, each["id"]}]
            if question_id is None and len(questions) > 1:
                listed = ", ".join(f"{each['id']} ({each['message']})" for each in questions)
                raise BadInput(f"{len(questions)} questions are open. Say with --question which is answered: {listed}.")
            if question_id is None and not questions:
                raise BadInput(f"Process {view['id']} waits for no answer: it is {view['status']}.")
            if not questions:  # the server says what became of it
                await server.send("POST", path, "processId", json={"awaitableId": question_id, "wait": 0})
                raise BadInput(f"Question {question_id} is not open.")
            question = questions[0]

            async def status() -> str:
                still_open = (await _view(server, process_id))["questions"]
                return "open" if any(each["id"] == question["id"] for each in still_open) else "settled"

            async def answer_or_decline(response: object, declined: str) -> str:
                said = {"declined": declined} if declined else {"response": response}
                sent = {"awaitableId": question["id"], "wait": 0, **said}
                answer = await server.send("POST", path, "processId", json=sent)
                now = answer.get("processStatus", answer["status"])
                if now in _GOES_ON:
                    return f"Done. The server goes on with process {process_id}."
                return f"Done. Process {process_id} is {now}."

            async def wait_and_print(structured: bool) -> int:  # noqa: FBT001 - as in `OpenQuestion`
                view: Mapping[str, Any] = {"status": "running"}
                while view["status"] in _GOES_ON:
                    view = await server.send("GET", _path(process_id), "processId", params={"wait": _WAIT_SECONDS})
                if "result" in view:
                    result: object = view["result"]
                    shown = cast("Mapping[str, Any]", result) if isinstance(result, dict) else {"result": result}
                    content: object = shown.get("content", cast("object", result))
                    text = content if isinstance(content, str) else json.dumps(result, ensure_ascii=False)
                    wire = {"content": [{"type": "text", "text": text}], "structuredContent": shown}
                    show_result(wire, structured=structured)
                    return 0
                say(f"Process {process_id} is {view['status']}. {view['reason'] or ''}".strip())
                if view["status"] == "waiting":
                    say(f"`goalport show {process_id} --server {server.shown}` shows how to answer.")
                    return 0
                return FAILED

            yield OpenQuestion(question, status, answer_or_decline, wait_and_print)

    async def kill(self, process_id: str, reason: str) -> str:
        async with self._client() as server:
            view = await _view(server, process_id)
            if view["final"]:
                raise BadInput(f"Process {process_id} has ended before: {view['status']}.")
            killed = await server.send("DELETE", _path(process_id), "processId", params={"reason": reason})
        return f"Process {process_id} is {killed['status']}."


def _path(process_id: str) -> str:
    return f"/api/v1/process/{quote(process_id, safe='')}"


async def _view(server: ServerClient, process_id: str) -> JsonObject:
    """A process with the names of members that the store uses."""
    answer = await server.send("GET", _path(process_id), "processId")
    questions = [{**each, "id": each["awaitableId"], "message": each["prompt"]} for each in answer["questions"]]
    rest = {name: value for name, value in answer.items() if name not in {"processId", "links"}}
    return {"id": answer["processId"], **rest, "questions": questions, "final": answer["status"] in _ENDED}
