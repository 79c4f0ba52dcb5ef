"""How a server is reached, chosen by its configuration."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from goalport.upstream.config import ServerConfig
from goalport.upstream.connection import Target
from goalport.upstream.oauth import SignIn, sign_in
from goalport.upstream.stdio import StdioTarget
from goalport.upstream.watchdog import Watchdog

__all__ = ["Targets"]


class Targets:
    """Makes targets for the servers of one hub."""

    def __init__(self, token_folder: Path, watchdog: Watchdog, show: SignIn | None) -> None:
        self._token_folder = token_folder
        self._watchdog = watchdog
        self._show = show

    def target(self, config: ServerConfig, hide: Callable[[str], str]) -> Target:
        if config.transport != "stdio":
            from goalport.upstream.http_target import HttpTarget

            oauth = config.oauth
            return HttpTarget(
                config, lambda: None if oauth is None else sign_in(config, oauth, self._token_folder, self._show)
            )
        if sys.platform == "win32":
            return _WindowsTarget(config)
        return StdioTarget(config, self._watchdog, hide)


class _WindowsTarget:
    """A stdio server where process groups are job objects, which the SDK's transport ends."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config

    def because(self) -> str:
        return ""

    def last_words(self) -> str:
        return ""

    def forgot_us(self) -> bool:
        return False

    def gave_up(self, request_id: object) -> bool:
        return False

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any]:
        from mcp.client.stdio import StdioServerParameters, stdio_client

        config = self._config
        parameters = StdioServerParameters(
            command=config.command, args=list(config.args), env=dict(config.env), cwd=config.cwd
        )
        async with stdio_client(parameters) as streams:
            yield streams
