"""What went wrong at a provider, in our terms: which error, whether it passes, and what to do about it.

No text here holds a key: what a provider says of a wrong one is left out, and the key is blotted out of the rest.
"""

import json
from asyncio import CancelledError
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from socket import gaierror
from typing import Any, cast

from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UserError,
)

from goalport.errors import ModelError, ModelNotReady, ModelRefused, ModelUnavailable
from goalport.llm.providers import PROVIDERS, Endpoint
from goalport.llm.retrying import PassingFailure
from goalport.llm.wire import ErrorAnswer
from goalport.secrecy import hide

__all__ = ["SchemaRefused", "translated"]

_PASSING_STATUS = frozenset({408, 425})
_EXCERPT = 300
"""Characters of what a provider says that an error shows."""


class SchemaRefused(ModelRefused):
    """The provider will not write by that schema."""


@contextmanager
def translated(endpoint: Endpoint, model: str) -> Generator[None]:
    """Turn whatever a provider's library raises into a `ModelError`."""
    try:
        yield
    except (ModelError, Warning):
        raise
    except Exception as error:
        raise _translate(_innermost(error), _Asked(endpoint, model)) from error


def _innermost(error: Exception) -> Exception:
    """The first of a group: what went wrong first made the others fail. Libraries wrap what they do not know."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return next((each for each in _causes(error) if isinstance(each, ErrorAnswer)), error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came of."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__


class _Asked:
    """Whom we asked, for the words of an error."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self.endpoint = endpoint
        self.model = model
        self.name = f"{endpoint.provider}:{model}"

    @property
    def key(self) -> str:
        """Where its key is set."""
        if self.endpoint.own:
            return "api_key of the model in [[models.custom]]"
        known = PROVIDERS.get(self.endpoint.provider)
        variable = f"{known.key}, or " if known and known.key else ""
        return f"{variable}api_key in [models.providers.{(known and known.settings) or self.endpoint.provider}]"

    def said(self, error: Exception) -> str:
        """What the provider's answer says, as a sentence, cut, and without the key."""
        text = _message(getattr(error, "body", None)) or getattr(error, "message", "") or str(error)
        secret = self.endpoint.api_key.get_secret_value() if self.endpoint.api_key else ""
        text = hide(text.replace(secret, "***") if secret else text).strip()
        text = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]} …"
        return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _message(body: object) -> str:
    """The sentence in the body of an error, wherever the provider keeps it."""
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


def _translate(error: Exception, asked: _Asked) -> ModelError:
    match error:
        case ErrorAnswer():
            kind = PassingFailure if error.passes else ModelUnavailable
            return kind(f"{asked.name} answered with an error: {asked.said(error)}")
        case ModelAPIError():
            return _of_the_provider(error, asked)
        case TimeoutError():
            return PassingFailure(f"{asked.name} gave no answer in time.")
        case ContentFilterError():
            return ModelRefused(f"{asked.name} refused: {asked.said(error)}")
        case UserError():
            return ModelRefused(f"{asked.name} cannot be asked that: {asked.said(error)}")
        case UnicodeEncodeError():
            return ModelRefused(f"{asked.name} cannot be asked that: the prompt has half of a surrogate pair, no text.")
        case _ if "Credentials" in type(error).__name__:
            return ModelNotReady(f"{asked.endpoint.provider} found no credentials: {asked.said(error)}")
        case _:
            return _unreadable(error, asked)


def _of_the_provider(error: ModelAPIError, asked: _Asked) -> ModelError:
    status = f" ({error.status_code})" if isinstance(error, ModelHTTPError) else ""
    match error:
        case ModelAuthenticationError():
            return ModelRefused(f"{asked.endpoint.provider} does not accept the key{status}. Check {asked.key}.")
        case ModelQuotaExceededError():
            return ModelRefused(f"The account at {asked.endpoint.provider} has no credit left{status}: top it up.")
        case ModelNotFoundError():
            return ModelRefused(_not_found(error, asked, status))
        case ModelContextWindowExceededError():
            return ModelRefused(f"The prompt is too long for {asked.name}{status}. Say less, or choose a larger model.")
        case ModelRateLimitError():
            return PassingFailure(f"{asked.name} has reached a rate limit{status}.", error.retry_after)
        case ModelServerError() | ModelUnavailableError():
            return PassingFailure(f"{asked.name} failed{status}: {asked.said(error)}", error.retry_after)
        case ModelTimeoutError(phase="connect"):
            return _disconnected(error, asked)
        case ModelTimeoutError() | ModelRequestTimeout():
            return PassingFailure(f"{asked.name} gave no answer in time.", error.retry_after)
        case ModelConnectionError():
            return _disconnected(error, asked)
        case ModelHTTPError() | ModelRequestRejectedError():
            return _rejected(error, asked, status)
        case _ if any(isinstance(each, ValueError) for each in _causes(error)):
            return _unreadable(error, asked)
        case _:
            return ModelUnavailable(f"{asked.name} answered with an error: {asked.said(error)}")


def _disconnected(error: ModelConnectionError, asked: _Asked) -> ModelError:
    where = asked.endpoint.address or asked.endpoint.provider
    if error.phase == "read":
        return PassingFailure(f"{asked.name} broke off in its answer at {where}: {_cause(error)}.", error.retry_after)
    return PassingFailure(
        f"{asked.name} cannot be reached at {where}: {_cause(error)}. Check the address, and that it runs.",
        unreachable=error.phase == "connect",
    )


def _cause(error: Exception) -> str:
    """What came first, in words; a library's own are that there was an error."""
    match list(_causes(error))[-1]:
        case ConnectionRefusedError():
            return "nothing answers there (connection refused)"
        case gaierror():
            return "there is no host of that name"
        case TimeoutError() | CancelledError():
            return "nothing answered in time"
        case first:
            return (str(first) or type(first).__name__).rstrip(".")


def _not_found(error: ModelAPIError, asked: _Asked, status: str) -> str:
    near = getattr(error, "suggested_model_id", None)
    guess = f" Did you mean {near}?" if near else ""
    return (
        f"{asked.endpoint.provider} knows no model {asked.model!r}{status}: {asked.said(error)}{guess} "
        f"Check the name, and the address {asked.endpoint.address or 'of the provider'}."
    )


def _rejected(error: ModelAPIError, asked: _Asked, status: str) -> ModelError:
    said = asked.said(error)
    if isinstance(error, ModelHTTPError) and error.status_code in _PASSING_STATUS:
        return PassingFailure(f"{asked.name} failed{status}: {said}", error.retry_after)
    if any(word in said.lower() for word in ("schema", "response_format", "output_format", "output_config")):
        return SchemaRefused(
            f"{asked.name} does not take the schema of the type{status}: {said} "
            "Use a simpler type (no unions, no recursion, no free-form dict), or another model."
        )
    return ModelRefused(f"{asked.name} refused the request{status}: {said}")


def _unreadable(error: Exception, asked: _Asked) -> ModelError:
    """Not what the provider's API says: half a reply, or a web page, as a proxy or a wrong address gives."""
    said = asked.said(error)
    if isinstance(error, AttributeError) and "token" in str(error.name):
        said = "it does not say how many tokens were used (`usage`)."
    return ModelUnavailable(
        f"{asked.name} answered in a form that cannot be read ({type(error).__name__}): {said} "
        f"Check that {asked.endpoint.address or 'its address'} is the API of {asked.endpoint.provider}."
    )
