"""The cost of replies and vectors: by the prices that the settings give a model, else by pydantic-ai's price data.

Those data are asked once for each model and day, because asking them takes longer than everything else that is done
with a reply. Above: `adapter`.
"""

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from pydantic_ai.embeddings.result import EmbeddingResult
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from goalport.llm.model import Prices

__all__ = ["Pricing"]

_MILLION: Final = 1_000_000
_PRICED_FIELDS: Final = frozenset({"input_tokens", "output_tokens", "cache_read_tokens"})
_MOST_CACHED: Final = 100


@dataclass(frozen=True, slots=True)
class _Rates:
    """US dollars per million tokens, where each token of a kind costs the same."""

    input: float
    cache_read: float
    output: float

    def of(self, usage: RequestUsage) -> float:
        fresh = usage.input_tokens - usage.cache_read_tokens
        cost = fresh * self.input + usage.cache_read_tokens * self.cache_read + usage.output_tokens * self.output
        return cost / _MILLION


class Pricing:
    """Prices the replies of one model; `model` is the name that the provider gives it, which not every reply tells."""

    def __init__(self, model: str, configured: Prices | None = None) -> None:
        self._model = model
        self._configured = None if configured is None else _Rates(configured.input, configured.input, configured.output)
        self._cached: dict[object, _Rates | None] = {}

    def cost(self, response: ModelResponse) -> float:
        """The cost in US dollars; 0 when the price is not known."""
        if self._configured is not None:
            return self._configured.of(response.usage)
        # A reply may bear the name of a deployment or an alias that the data do not know; then the asked name counts.
        for name in dict.fromkeys((response.model_name or self._model, self._model)):
            named = replace(response, model_name=name)
            try:
                rates = self._rates(named) if _is_plain(named.usage) else None
                return float(named.cost().total_price) if rates is None else rates.of(named.usage)
            except (LookupError, ValueError):
                continue
        return 0.0

    def cost_of_vectors(self, result: EmbeddingResult) -> float:
        """The cost in US dollars; 0 when the price is not known."""
        if self._configured is not None:
            return self._configured.of(result.usage)
        for name in dict.fromkeys((result.model_name or self._model, self._model)):
            try:
                return float(replace(result, model_name=name).cost().total_price)
            except (LookupError, ValueError):
                continue
        return 0.0

    def _rates(self, response: ModelResponse) -> _Rates | None:
        """The rates for replies like this one; None when the price depends on more than the number of tokens."""
        details = response.provider_details or {}
        tier = frozenset((key, each) for key, each in details.items() if isinstance(each, str))
        like = (response.model_name, response.provider_url, response.timestamp.date(), tier)
        if like not in self._cached:
            if len(self._cached) >= _MOST_CACHED:
                self._cached.clear()
            self._cached[like] = _looked_up(response)
        return self._cached[like]


def _is_plain(usage: RequestUsage) -> bool:
    """Whether nothing was used that has a price of its own: audio, thoughts, writing to a cache."""
    return not any(count for name, count in vars(usage).items() if name not in _PRICED_FIELDS and name != "details")


def _looked_up(response: ModelResponse) -> _Rates | None:
    prices = vars(response.cost().model_price).values()
    if not all(isinstance(each, Decimal) for each in prices if each is not None):
        return None
    nothing, fresh, cached, written = (
        float(replace(response, usage=usage).cost().total_price)
        for usage in (
            RequestUsage(),
            RequestUsage(input_tokens=_MILLION),
            RequestUsage(input_tokens=_MILLION, cache_read_tokens=_MILLION),
            RequestUsage(output_tokens=_MILLION),
        )
    )
    return None if nothing else _Rates(fresh, cached, written)
