"""What a reply costs: by the prices that were given for a model, else by those that pydantic-ai's data know.

Those data are asked once for each model and day: asking them takes longer than all else that is done with a reply.
Above: `adapter`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from pydantic_ai.embeddings.result import EmbeddingResult
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from goalport.llm.model import Prices

__all__ = ["Pricing"]

_MILLION: Final = 1_000_000
_COUNTED: Final = frozenset({"input_tokens", "output_tokens", "cache_read_tokens"})
_MOST_KNOWN: Final = 100


@dataclass(frozen=True, slots=True)
class _Rates:
    """Dollars for a million tokens, where each token costs the same."""

    input: float
    cache_read: float
    output: float

    def of(self, usage: RequestUsage) -> float:
        fresh = usage.input_tokens - usage.cache_read_tokens
        spent = fresh * self.input + usage.cache_read_tokens * self.cache_read + usage.output_tokens * self.output
        return spent / _MILLION


class Pricing:
    """Prices the replies of one model; `model` is what the provider calls it, which not every reply says."""

    def __init__(self, model: str, given: Prices | None = None) -> None:
        self._model = model
        self._given = None if given is None else _Rates(given.input, given.input, given.output)
        self._known: dict[object, _Rates | None] = {}

    def cost(self, response: ModelResponse) -> float:
        """Dollars; 0 when nobody knows the price."""
        if self._given is not None:
            return self._given.of(response.usage)
        # A reply may come under the name of a deployment or an alias that no data know: then what was asked counts.
        for name in dict.fromkeys((response.model_name or self._model, self._model)):
            named = replace(response, model_name=name)
            try:
                rates = self._rates(named) if _is_plain(named.usage) else None
                return float(named.cost().total_price) if rates is None else rates.of(named.usage)
            except (LookupError, ValueError):
                continue
        return 0.0

    def cost_of_vectors(self, result: EmbeddingResult) -> float:
        """Dollars; 0 when nobody knows the price."""
        if self._given is not None:
            return self._given.of(result.usage)
        for name in dict.fromkeys((result.model_name or self._model, self._model)):
            try:
                return float(replace(result, model_name=name).cost().total_price)
            except (LookupError, ValueError):
                continue
        return 0.0

    def _rates(self, response: ModelResponse) -> _Rates | None:
        """The rates for replies like this one; None: they depend on more."""
        tier = frozenset((key, each) for key, each in _details(response).items() if isinstance(each, str))
        like = (response.model_name, response.provider_url, response.timestamp.date(), tier)
        if like not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[like] = _asked(response)
        return self._known[like]


def _details(response: ModelResponse) -> Mapping[str, Any]:
    return response.provider_details or {}


def _is_plain(usage: RequestUsage) -> bool:
    """Whether nothing was used that is counted apart: sound, thoughts, writing to a cache."""
    return not any(count for name, count in vars(usage).items() if name not in _COUNTED and name != "details")


def _asked(response: ModelResponse) -> _Rates | None:
    prices = vars(response.cost().model_price).values()
    if not all(isinstance(each, Decimal) for each in prices if each is not None):
        return None
    nothing, fresh, cached, said = (
        float(replace(response, usage=usage).cost().total_price)
        for usage in (
            RequestUsage(),
            RequestUsage(input_tokens=_MILLION),
            RequestUsage(input_tokens=_MILLION, cache_read_tokens=_MILLION),
            RequestUsage(output_tokens=_MILLION),
        )
    )
    return None if nothing else _Rates(fresh, cached, said)
