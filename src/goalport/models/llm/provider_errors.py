"""Failures of providers: how they are detected in HTTP responses, and which `ModelError` each becomes.

Two failures look like success in HTTP: an answer that was cut off, and an error with the status 200. The providers'
libraries accept both, so `check_responses` checks each response first. `provider_errors` then turns whatever a library
raises into our error: whether it may pass, and what to do about it. No text here holds a key: what a provider says of a
wrong key is left out, and the key is removed from the rest. Above: `adapter`.
"""

import json
import re
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from socket import gaierror
from typing import Any, cast

import httpx2
from pydantic_ai import exceptions as failures
from pydantic_core import from_json

from goalport.base.errors import ModelError, ModelNotReady, ModelRefused, ModelUnavailable, causes, leaves
from goalport.base.secrecy import hide
from goalport.base.words import did_you_mean, excerpt
from goalport.models.llm.dialects import Endpoint
from goalport.models.llm.model import TransientFailure
from goalport.models.llm.providers import PROVIDERS, KnownProvider

_TRANSIENT_STATUS = frozenset({408, 425})
_EXCERPT = 300
"""Characters of what a provider says that an error shows."""

_OVERLAP = 100
"""Bytes of a piece that are searched again with the next one: the longest mark of a `stream_end`, and spaces."""
_LONGEST_ERROR = 20_000
"""The most bytes of an error; a longer body is an answer."""
_ANSWER_FIELDS = frozenset({"choices", "content", "output", "data"})
"""Fields of models' answers; in a body that has one of these, an error is a detail."""
_TRANSIENT_CODES = frozenset({"408", "425", "429", "overloaded_error", "rate_limit_error", "api_error", "server_error"})


class _ErrorWithGoodStatus(Exception):
    """The body of a response is an error, although its status is that of a success."""

    def __init__(self, error: object) -> None:
        self.body = {"error": error}
        known = cast("dict[str, object]", error) if isinstance(error, dict) else {}
        codes = [str(known.get(name)) for name in ("code", "status", "type")]
        self.is_transient = any(each in _TRANSIENT_CODES or re.fullmatch(r"5\d\d", each) for each in codes)
        """Whether the same request may be answered later."""
        super().__init__("an error with the status of an answer")


class SchemaRefused(ModelRefused):
    """The provider does not accept the JSON Schema of the output."""


def check_responses(client: httpx2.AsyncClient, end: re.Pattern[bytes] | None) -> None:
    """Make a client raise if a stream lacks the pattern `end`, as if the connection broke, or a body is an error."""

    async def check(response: httpx2.Response) -> None:
        kind, request = response.headers.get("content-type", "").lower(), response.request
        # Where the server does not say whether it is a stream, the request tells.
        may_be_stream = not ("json" in kind or "html" in kind) and b'"stream":true' in request.content
        if end is None or not (may_be_stream or kind.startswith("text/event-stream")):
            if response.is_success and "json" in kind:
                _raise_error_in(await response.aread())
            return
        mark, read = end, response.aiter_bytes

        async def read_to_end(chunk_size: int | None = None) -> AsyncGenerator[bytes]:
            last, ended = b"\n", False
            async with aclosing(read(chunk_size)) as pieces:
                async for piece in pieces:
                    ended = ended or mark.search(last + piece) is not None
                    last = (last + piece)[-_OVERLAP:]
                    yield piece
            if not ended:
                told = "the answer ended before it said that it was at its end"
                raise httpx2.RemoteProtocolError(told, request=request)

        response.aiter_bytes = read_to_end

    client.event_hooks["response"].append(check)


def _raise_error_in(body: bytes) -> None:
    if b'"error"' not in body[:_LONGEST_ERROR] or len(body) > _LONGEST_ERROR:
        return
    try:
        found: Any = from_json(body)
    except ValueError:
        return
    match found:
        case {"error": error} if error and not any(map(found.get, _ANSWER_FIELDS)):
            raise _ErrorWithGoodStatus(error)
        case {"choices": [{"error": error}, *_]} if error:
            raise _ErrorWithGoodStatus(error)
        case _:
            pass


@contextmanager
def provider_errors(endpoint: Endpoint, model: str) -> Generator[None]:
    """Turn whatever a provider's library raises in this block into a `ModelError`."""
    try:
        yield
    except (ModelError, Warning):
        raise
    except Exception as error:
        # The first of a group made the others fail; a library may have wrapped the error of `check_responses`.
        first = next(each for each in leaves(error) if isinstance(each, Exception))
        cause = next((each for each in causes(first, implicit=True) if isinstance(each, _ErrorWithGoodStatus)), first)
        said = _message(getattr(cause, "body", None)) or getattr(cause, "message", "") or str(cause)
        secret = endpoint.api_key.get_secret_value() if endpoint.api_key else ""
        said = excerpt(hide(said.replace(secret, "***") if secret else said).strip(), _EXCERPT)
        said = said if said.endswith((".", "!", "?", "…")) else f"{said}."
        raise _translate(cause, endpoint, model, said) from error


def _message(body: object) -> str:
    """The message in the body of an error; each provider has it in another field."""
    match body:
        case {"error": dict()}:
            return _message(cast("dict[str, Any]", body)["error"])
        case {"Error": {"Message": str() as message, "Code": str() as code}}:
            return message or code
        case {"message": str() as message} | {"error": str() as message} | {"detail": str() as message}:
            return message
        case str():
            return body
        case None:
            return ""
        case _:
            return json.dumps(body, default=str)


def _translate(error: Exception, endpoint: Endpoint, model: str, said: str) -> ModelError:
    name = f"{endpoint.provider}:{model}"
    match error:
        case _ErrorWithGoodStatus():
            kind = TransientFailure if error.is_transient else ModelUnavailable
            return kind(f"{name} answered with an error: {said}")
        case failures.ModelAPIError() if translated := _translate_api_error(error, endpoint, model, said):
            return translated
        case TimeoutError():
            return TransientFailure(f"{name} gave no answer in time.")
        case failures.ContentFilterError():
            return ModelRefused(f"{name} refused: {said}")
        case failures.UserError():
            return ModelRefused(f"{name} cannot be asked that: {said}")
        case UnicodeEncodeError():
            return ModelRefused(f"{name} cannot be asked that: the prompt has half of a surrogate pair, no text.")
        case _ if "Credentials" in type(error).__name__:
            return ModelNotReady(f"{endpoint.provider} found no credentials: {said}")
        case _:  # an answer that is not of the provider's API, as a proxy or a wrong address gives
            if isinstance(error, AttributeError) and "token" in str(error.name):
                said = "it does not say how many tokens were used (`usage`)."
            return ModelUnavailable(
                f"{name} answered in a form that cannot be read ({type(error).__name__}): {said} "
                f"Check that {endpoint.address or 'its address'} is the API of {endpoint.provider}."
            )


def _translate_api_error(error: failures.ModelAPIError, endpoint: Endpoint, model: str, said: str) -> ModelError | None:
    """The error for what the provider answered, or for no answer; None: the answer cannot be read."""
    name, provider, address = f"{endpoint.provider}:{model}", endpoint.provider, endpoint.address
    code = error.status_code if isinstance(error, failures.ModelHTTPError) else None
    status = "" if code is None else f" ({code})"
    match error:
        case failures.ModelAuthenticationError():
            known = PROVIDERS.get(provider) or KnownProvider(name=provider)
            where = "api_key of the model in [[models.custom]]" if endpoint.own else known.key_setting
            return ModelRefused(f"{provider} does not accept the key{status}. Check {where}.")
        case failures.ModelQuotaExceededError():
            return ModelRefused(f"The account at {provider} has no credit left{status}: top it up.")
        case failures.ModelNotFoundError():
            near = getattr(error, "suggested_model_id", None)
            return ModelRefused(
                f"{provider} knows no model {model!r}{status}: {said}{f' {did_you_mean([near])}' if near else ''} "
                f"Check the name, and the address {address or 'of the provider'}."
            )
        case failures.ModelContextWindowExceededError():
            return ModelRefused(f"The prompt is too long for {name}{status}. Say less, or choose a larger model.")
        case failures.ModelRateLimitError():
            return TransientFailure(f"{name} has reached a rate limit{status}.", error.retry_after)
        case failures.ModelServerError() | failures.ModelUnavailableError():
            return TransientFailure(f"{name} failed{status}: {said}", error.retry_after)
        case failures.ModelTimeoutError() | failures.ModelRequestTimeout() if getattr(error, "phase", "") != "connect":
            return TransientFailure(f"{name} gave no answer in time.", error.retry_after)
        case failures.ModelConnectionError(phase="read"):
            reason = f"{name} broke off in its answer at {address or provider}: {_first_cause(error)}."
            return TransientFailure(reason, error.retry_after)
        case failures.ModelConnectionError():
            reason = f"{name} cannot be reached at {address or provider}: {_first_cause(error)}."
            unreachable = error.phase == "connect"
            return TransientFailure(f"{reason} Check the address, and that it runs.", unreachable=unreachable)
        case failures.ModelHTTPError() if code in _TRANSIENT_STATUS:
            return TransientFailure(f"{name} failed{status}: {said}", error.retry_after)
        case failures.ModelHTTPError() | failures.ModelRequestRejectedError():
            return _refused(name, status, said)
        case _:
            unreadable = any(isinstance(each, ValueError) for each in causes(error, implicit=True))
            return None if unreadable else ModelUnavailable(f"{name} answered with an error: {said}")


def _refused(name: str, status: str, said: str) -> ModelRefused:
    if any(word in said.lower() for word in ("schema", "response_format", "output_format", "output_config")):
        return SchemaRefused(
            f"{name} does not take the schema of the type{status}: {said} "
            "Use a simpler type (no unions, no recursion, no free-form dict), or another model."
        )
    return ModelRefused(f"{name} refused the request{status}: {said}")


def _first_cause(error: Exception) -> str:
    """The first cause in words; the library itself only says that there was an error."""
    match list(causes(error, implicit=True))[-1]:
        case ConnectionRefusedError():
            return "nothing answers there (connection refused)"
        case gaierror():
            return "there is no host of that name"
        case TimeoutError() | CancelledError():
            return "nothing answered in time"
        case first:
            return (str(first) or type(first).__name__).rstrip(".")
