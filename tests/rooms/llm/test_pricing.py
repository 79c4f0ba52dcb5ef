"""What replies cost: what pydantic-ai's data say, however often they are asked, and what was given for a model."""

from hypothesis import given, strategies as st
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from goalport.models.llm import Prices
from goalport.models.llm.adapter import Pricing

MODELS = {
    "openai": ["gpt-4.1-mini", "gpt-5", "o3", "gpt-4o-audio-preview"],
    "anthropic": ["claude-opus-4-1", "claude-sonnet-4-5"],
    "google": ["gemini-2.5-pro", "gemini-2.5-flash"],
    "deepseek": ["deepseek-chat"],
    "perplexity": ["sonar-pro"],
}
"""Among them models with tiers, variants, hours of the day, and prices for each request."""
PRICING = Pricing("whatever")
tokens = st.integers(0, 400_000)


@given(
    st.sampled_from([(provider, name) for provider, names in MODELS.items() for name in names]),
    st.tuples(tokens, tokens, tokens, st.sampled_from([0, 0, 0, 500]), st.sampled_from([0, 0, 0, 70])),
    st.sampled_from([None, {"service_tier": "flex"}, {"service_tier": "priority"}, {"finish_reason": "stop"}]),
)
def test_a_price_is_what_the_data_say_to_the_last_fraction_of_a_cent(
    model: tuple[str, str], counts: tuple[int, int, int, int, int], details: dict[str, str] | None
) -> None:
    provider, name = model
    fresh, cached, said, written, heard = counts
    usage = RequestUsage(
        input_tokens=fresh + cached + written + heard,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        input_audio_tokens=heard,
        output_tokens=said,
    )
    response = ModelResponse(parts=[], usage=usage, model_name=name, provider_name=provider, provider_details=details)
    expected = float(response.cost().total_price)
    assert abs(PRICING.cost(response) - expected) <= 1e-9 * max(1, expected)


def test_a_model_that_nobody_knows_costs_nothing_and_one_whose_prices_were_given_those() -> None:
    response = ModelResponse(
        parts=[], usage=RequestUsage(input_tokens=1_000_000, output_tokens=500_000), model_name="house-blend"
    )
    assert Pricing("whatever").cost(response) == 0
    assert Pricing("whatever", Prices(input=0.4, output=1.6)).cost(response) == 1.2


def test_a_reply_that_does_not_name_its_model_has_the_price_of_the_one_that_was_asked() -> None:
    response = ModelResponse(parts=[], usage=RequestUsage(input_tokens=1_000_000), provider_name="openai")
    assert Pricing("gpt-4.1-mini").cost(response) == 0.4
