"""Validators of types that models are asked for, which look something up in a service of the platform."""

from collections.abc import Iterable
from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel, ValidationError, ValidationInfo

from goalport import AgentPlatform
from goalport.base.errors import InvalidModelOutput
from goalport.runtime.ai import service_of
from goalport.testing import ScriptedModel


class Vocabulary:
    def __init__(self, words: Iterable[str]) -> None:
        self.words = frozenset(words)


def known(word: str, info: ValidationInfo) -> str:
    if word not in service_of(info, Vocabulary).words:
        raise ValueError(f"should be a word that is known, and {word!r} is none")
    return word


class Riddle(BaseModel):
    solution: Annotated[str, AfterValidator(known)]


async def test_a_validator_finds_the_platforms_service_and_the_model_hears_what_it_says() -> None:
    model = ScriptedModel([{"solution": "gnorf"}, {"solution": "fox"}])
    platform = AgentPlatform(services=[Vocabulary(["fox", "owl"])], models=model)
    riddle = await platform.ai.create_object("A riddle", Riddle)
    assert riddle.solution == "fox"
    assert "'gnorf' is none" in str(model.calls[1].messages[-1])


async def test_the_same_holds_for_lists_and_for_streams() -> None:
    model = ScriptedModel([[{"solution": "owl"}], '{"solution": "fox"}'])
    platform = AgentPlatform(services=[Vocabulary(["fox", "owl"])], models=model)
    assert [each.solution for each in await platform.ai.create_object("Riddles", list[Riddle])] == ["owl"]
    assert [each.solution async for each in platform.ai.streaming().objects("Riddles", Riddle)] == ["fox"]


async def test_a_service_that_is_not_there_is_said_to_be_missing() -> None:
    platform = AgentPlatform(models=ScriptedModel([{"solution": "fox"}, {"solution": "fox"}]))
    with pytest.raises(InvalidModelOutput, match="no service of type Vocabulary here"):
        await platform.ai.create_object("A riddle", Riddle)


def test_code_that_validates_by_itself_is_told_that_there_are_no_services() -> None:
    with pytest.raises(ValidationError, match="no service of type Vocabulary here"):
        Riddle(solution="fox")
