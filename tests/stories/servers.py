"""Starts `goalport serve` as a process, listens to what it says on stderr, and makes clients. No test is in here."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream
from mcp import Client
from mcp.client.sse import sse_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from tests.measured import MEASURED
from tests.programs import GOALPORT, Program, forked

READY = "goalport ready on "
WAYS = [(transport, era) for transport in ("http", "sse", "stdio") for era in ("auto", "legacy")]
"""Every transport in both eras of the protocol."""


@dataclass
class Heard:
    """What a process said on stderr, so far or since a test began."""

    text: str = ""
    ended: bool = False
    changed: anyio.Event = field(default_factory=anyio.Event)

    def add(self, text: str) -> None:
        self.text += text
        self._change()

    def end(self) -> None:
        """Nothing more will be said."""
        self.ended = True
        self._change()

    async def until(self, words: str, times: int = 1, seconds: float = 60) -> str:
        """Wait until the words have been said so often."""
        with anyio.move_on_after(seconds):
            while self.text.count(words) < times and not self.ended:
                await self.changed.wait()
        if self.text.count(words) >= times:
            return self.text
        raise AssertionError(f"Expected {words!r} on stderr within {seconds} s; came:\n{self.text}")

    def _change(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


@dataclass(frozen=True)
class Running:
    """A server that listens on HTTP."""

    process: Program
    heard: Heard
    address: str
    announced: str = ""
    """What it said until it was ready."""

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def client(self, transport: str, era: str, **options: Any) -> AbstractAsyncContextManager[Client]:
        target: Any = f"{self.address}/mcp" if transport == "http" else sse_client(f"{self.address}/sse")
        return Client(target, mode=era, **options)


def workspace(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@asynccontextmanager
async def running(
    root: Path, files: Mapping[str, str], *options: str, port: int = 0, **settings: str
) -> AsyncGenerator[Running]:
    """Serve a workspace over HTTP for as long as the block lasts, if nobody ends the server before."""
    arguments = ["serve", "--workspace", str(workspace(root, files)), "--port", str(port), *options]
    env = {**os.environ, **{f"GOALPORT_{name.upper()}": value for name, value in settings.items()}}
    async with program(arguments, env) as (process, heard):
        said = await heard.until(READY)
        line = next(line for line in said.splitlines() if line.startswith(READY))
        yield Running(process, heard, line.removeprefix(READY).removesuffix("/mcp"), said)


@asynccontextmanager
async def program(
    arguments: Sequence[str], env: Mapping[str, str] | None = None, script: str = GOALPORT
) -> AsyncGenerator[tuple[Program, Heard]]:
    """A program that is forked, and what it says; it is ended with the block."""
    env = env or os.environ
    if MEASURED in env and script == GOALPORT:  # a program measures itself from its start on
        async with started([GOALPORT, *arguments], env=env) as pair:
            yield pair
        return
    async with _heard() as (heard, errors), forked(arguments, env, stderr=errors, program=script) as process:
        yield process, heard


@asynccontextmanager
async def started(command: list[str], **options: Any) -> AsyncGenerator[tuple[Process, Heard]]:
    """A process and what it says; it is ended with the block."""
    heard = Heard()
    async with await anyio.open_process(command, **options) as process, anyio.create_task_group() as tasks:
        tasks.start_soon(_listen, process, heard)
        try:
            yield process, heard
        finally:
            if process.returncode is None:
                process.terminate()
            with anyio.fail_after(30, shield=True):
                await process.wait()
            tasks.cancel_scope.cancel()


async def _listen(process: Process, heard: Heard) -> None:
    assert process.stderr is not None
    async for text in TextReceiveStream(process.stderr):
        heard.add(text)
    heard.end()


@asynccontextmanager
async def over_stdio(
    root: Path, files: Mapping[str, str], era: str, **options: Any
) -> AsyncGenerator[tuple[Client, Heard]]:
    """A client that starts its server, and what that server says; it listens on after the client has gone."""
    arguments = ["serve", "--transport", "stdio", "--workspace", str(workspace(root, files))]
    async with _heard() as (heard, errors), Client(_piped(arguments, errors), mode=era, **options) as client:
        yield client, heard


class Reading:
    """The output of a program, as it comes."""

    def __init__(self, file: int) -> None:
        self._file = file

    async def receive(self) -> bytes:
        """What has come, at least a byte. Raises `EndOfStream`."""
        await anyio.wait_readable(self._file)
        if not (came := os.read(self._file, 65_536)):
            raise anyio.EndOfStream
        return came

    async def rest(self) -> bytes:
        """All that comes until the program closes it."""
        found = b""
        with suppress(anyio.EndOfStream):
            while True:
                found += await self.receive()
        return found


class Writing:
    """The input of a program."""

    def __init__(self, file: int) -> None:
        os.set_blocking(file, False)
        self._file: int | None = file

    async def send(self, said: bytes) -> None:
        assert self._file is not None
        while said:
            await anyio.wait_writable(self._file)
            said = said[os.write(self._file, said) :]

    async def aclose(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None


@dataclass(frozen=True)
class Spoken:
    """A server over stdio that is spoken to by hand."""

    process: Program
    heard: Heard
    stdin: Writing
    stdout: Reading


@asynccontextmanager
async def spoken_to(root: Path, files: Mapping[str, str], **settings: str) -> AsyncGenerator[Spoken]:
    """Serve a workspace over stdio, in a program that is forked, for as long as the block lasts."""
    arguments = ["serve", "--transport", "stdio", "--workspace", str(workspace(root, files))]
    env = {**os.environ, **{f"GOALPORT_{name.upper()}": value for name, value in settings.items()}}
    (their_input, ours), (output, theirs) = os.pipe(), os.pipe()
    stdin = Writing(ours)
    try:
        async with (
            _heard() as (heard, errors),
            forked(arguments, env, stdin=their_input, stdout=theirs, stderr=errors) as process,
        ):
            yield Spoken(process, heard, stdin, Reading(output))
    finally:
        await stdin.aclose()
        os.close(output)


@asynccontextmanager
async def _heard() -> AsyncGenerator[tuple[Heard, int]]:
    """What is said to a file until all who have it have closed it."""
    heard = Heard()
    reading, writing = os.pipe()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen_to_pipe, reading, heard)
            yield heard, writing
    finally:
        os.close(reading)


@asynccontextmanager
async def _piped(arguments: list[str], errors: int) -> AsyncGenerator[Any]:
    """The transport of a client to a program: a message in each line of its standard input and output."""
    (their_input, ours), (output, theirs) = os.pipe(), os.pipe()
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        with os.fdopen(output, encoding="utf-8") as lines, received:
            async for line in anyio.wrap_file(lines):
                with suppress(anyio.BrokenResourceError):
                    await received.send(_message(line))

    async def write() -> None:
        with suppress(BrokenPipeError), os.fdopen(ours, "w", encoding="utf-8") as lines, sent:
            async for each in sent:
                lines.write(each.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n")
                await anyio.wrap_file(lines).flush()

    async with (
        forked(arguments, os.environ, stdin=their_input, stdout=theirs, stderr=errors),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(read)
        tasks.start_soon(write)
        with incoming, outgoing:
            yield incoming, outgoing


def _message(line: str) -> SessionMessage | Exception:
    """As the SDK's client reads a line: one that is none is the session's to tell."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _listen_to_pipe(reading: int, heard: Heard) -> None:
    while True:
        await anyio.wait_readable(reading)
        text = os.read(reading, 65_536).decode()
        if not text:
            heard.end()
            return
        heard.add(text)


@asynccontextmanager
async def connected(
    root: Path, files: Mapping[str, str], transport: str, era: str, **options: Any
) -> AsyncGenerator[tuple[Client, Heard]]:
    """A client over a transport, and what its server says."""
    if transport == "stdio":
        async with over_stdio(root, files, era, **options) as pair:
            yield pair
    else:
        async with running(root, files) as server, server.client(transport, era, **options) as client:
            yield client, server.heard
