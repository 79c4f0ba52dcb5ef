"""What replies cost: what pydantic-ai's data say, and what was given for a model."""

from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from goalport.models.llm import Prices
from goalport.models.llm.adapter import Pricing


def test_a_model_that_nobody_knows_costs_nothing_and_one_whose_prices_were_given_those() -> None:
    response = ModelResponse(
        parts=[], usage=RequestUsage(input_tokens=1_000_000, output_tokens=500_000), model_name="house-blend"
    )
    assert Pricing("whatever").usage(response).cost == 0
    assert Pricing("whatever", Prices(input=0.4, output=1.6)).usage(response).cost == 1.2


def test_a_reply_that_does_not_name_its_model_has_the_price_of_the_one_that_was_asked() -> None:
    response = ModelResponse(parts=[], usage=RequestUsage(input_tokens=1_000_000), provider_name="openai")
    assert Pricing("gpt-4.1-mini").usage(response).cost == 0.4
