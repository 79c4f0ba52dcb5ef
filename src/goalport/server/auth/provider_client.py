"""The client that asks identity providers: for their metadata and keys, and about tokens.

Its answers are small JSON objects: size and time are bounded, no redirect is followed, and nothing is tried again here.
Above: `jwt` and `introspection`, which decide when to ask.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

from goalport.base.errors import GoalportError
from goalport.base.strict_json import read_object
from goalport.base.words import one_line

if TYPE_CHECKING:
    import httpx2

_SECONDS: Final = 10.0
T = TypeVar("T")


class ProviderError(GoalportError):
    """A provider did not answer as it should; the message says how."""

    def __init__(self, reason: str, code: str = "") -> None:
        super().__init__(reason)
        self.code = code
        """The error that a response with status 400 names (RFC 6749, section 5.2); empty: none."""


class ProviderClient:
    """One client for all providers of a server. It opens nothing before the first request.

    What a caller waits for takes `seconds` at most.
    """

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._http: httpx2.AsyncClient | None = None
        self._tasks = set[asyncio.Task[None]]()

    async def get(self, url: str) -> Mapping[str, Any]:
        """The JSON object at a URL. Raises `ProviderError`."""
        return await self._bounded("GET", url)

    async def post(self, url: str, form: Mapping[str, str], user: str, password: str) -> Mapping[str, Any]:
        """The JSON object that answers a form, sent with HTTP Basic authentication. Raises `ProviderError`."""
        return await self._bounded("POST", url, data=dict(form), auth=(user, password))

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do work on a provider in a task of its own, which ends with this client at the latest."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def aclose(self) -> None:
        """Cancel the tasks and close the connections."""
        tasks = list(self._tasks)
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def in_time(self, who: str, work: Awaitable[T]) -> T:
        """The result of work that may ask more than once. Raises `ProviderError` if it takes too long."""
        try:
            async with asyncio.timeout(self._seconds):
                return await work
        except TimeoutError:
            raise ProviderError(f"{who} did not answer within {self._seconds:g} s.") from None

    async def _bounded(self, method: str, url: str, **options: Any) -> Mapping[str, Any]:
        import httpx2

        try:
            return await self.in_time(url, self._ask(method, url, **options))
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ValueError) as error:
            raise ProviderError(f"{url} cannot be read: {error or type(error).__name__}") from None

    async def _ask(self, method: str, url: str, **options: Any) -> Mapping[str, Any]:
        """What a provider answers. Raises `ProviderError`, and `ValueError` if it is no JSON object."""
        import httpx2

        from goalport.base.bounded_answers import bounded_client

        if self._http is None:
            # Who asks bounds how many ask at once, so that requests to one provider never wait for those to another.
            many = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
            headers = {"Accept": "application/json"}
            self._http = bounded_client(self._seconds, headers=headers, limits=many, follow_redirects=False)
        response = await self._http.request(method, url, **options)
        if response.status_code == HTTPStatus.OK:
            return read_object(response.content)
        code = ""
        if response.status_code == HTTPStatus.BAD_REQUEST:
            with suppress(ValueError):
                code = one_line(str(read_object(response.content).get("error", "")))
        raise ProviderError(f"{url} cannot be read: expected status 200, but got {response.status_code} {code}", code)
