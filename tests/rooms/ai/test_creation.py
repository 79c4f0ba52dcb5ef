"""Objects made with more ado, and conditions that a model judges."""

from pathlib import Path
from typing import Annotated, cast

import pytest
from pydantic import BaseModel, Field

from goalport.base.errors import DeclarationError, InvalidModelOutput, UnknownName
from goalport.models.llm import AssistantMessage, UserMessage
from goalport.testing import ScriptedModel
from tests.rooms.ai.scripted import ai_with, scripted


class Story(BaseModel):
    title: str
    text: str
    mood: str = "calm"
    author: str = "nobody"


FOX = Story(title="The fox", text="Once upon a time …")


async def test_examples_go_into_the_prompt_as_json_below_what_they_are_examples_of() -> None:
    ai, model = scripted(FOX)
    creation = ai.with_system_prompt("Be brief.").creating(Story)
    creation = creation.with_example("A children's story", FOX).with_example("A sad one", FOX)
    assert await creation.from_prompt("A story about a fox") == FOX
    system = model.calls[0].messages[0].content
    assert "Example: A children's story\n{\n" in system
    assert '"title": "The fox"' in system
    assert system.index("Be brief.") < system.index("A children's story") < system.index("A sad one")
    assert model.calls[0].messages[-1].content == "A story about a fox"


async def test_only_the_properties_that_are_wanted_are_asked_for_shown_and_taken() -> None:
    ai, model = scripted({"title": "The fox", "text": "Once", "mood": "wild", "author": "me"})
    creation = ai.creating(Story).with_property_filter(["title", "text", "mood"])
    creation = creation.with_property_filter(lambda name: name != "mood").with_example("One", FOX)
    story = await creation.from_prompt("A story")
    assert (story.title, story.mood, story.author) == ("The fox", "calm", "nobody")
    assert model.calls[0].output is not None
    asked = cast("dict[str, object]", model.calls[0].output.schema["properties"])
    assert list(asked) == ["title", "text"]
    assert "mood" not in model.calls[0].messages[0].content


async def test_a_property_without_a_default_cannot_be_left_out() -> None:
    ai, model = scripted()
    with pytest.raises(DeclarationError, match="text would be left out"):
        await ai.creating(Story).with_property_filter(["title"]).from_prompt("A story")
    assert model.calls == []


async def test_a_filter_that_is_one_name_by_mistake_is_refused() -> None:
    ai, _ = scripted()
    with pytest.raises(TypeError, match=r"write \['title'\]"):
        ai.creating(Story).with_property_filter("title")


async def test_a_creation_is_kept_and_used_again() -> None:
    ai, model = scripted(FOX, FOX)
    plain = ai.creating(Story)
    await plain.with_example("One", FOX).from_prompt("x")
    await plain.from_prompt("x")
    assert "Example: One" not in model.calls[1].messages[0].content


async def test_an_object_is_made_of_a_conversation() -> None:
    ai, model = scripted(FOX)
    await ai.creating(Story).from_messages([UserMessage("Hi"), AssistantMessage("Yes?"), UserMessage("A story")])
    assert [each.content for each in model.calls[0].messages] == ["Hi", "Yes?", "A story"]


async def test_an_object_is_made_of_a_template(tmp_path: Path) -> None:
    (tmp_path / "story.jinja").write_text("A story about {{ animal }}{% for each in rules %}\n- {{ each }}{% endfor %}")
    model = ScriptedModel([FOX])
    creation = ai_with(model, templates=tmp_path).creating(Story)
    assert await creation.from_template("story", animal="a fox", rules=["short"]) == FOX
    assert model.calls[0].messages[-1].content == "A story about a fox\n- short"
    with pytest.raises(UnknownName, match="Did you mean 'story'"):
        await creation.from_template("storey", animal="a fox")


async def test_what_comes_is_repaired_as_with_create_object() -> None:
    class Short(BaseModel):
        text: Annotated[str, Field(max_length=5)]

    ai, _ = scripted({"text": "too long"}, {"text": "short"})
    assert (await ai.creating(Short).from_prompt("x")).text == "short"


@pytest.mark.parametrize(
    ("result", "confidence", "holds"),
    [(True, 0.9, True), (True, 0.8, True), (True, 0.79, False), (False, 1.0, False)],
)
async def test_a_condition_holds_when_the_model_says_so_and_is_sure_enough(
    *,
    result: bool,
    confidence: float,
    holds: bool,
) -> None:
    ai, model = scripted({"result": result, "confidence": confidence, "explanation": "because"})
    assert await ai.evaluate_condition("The person is kind", "Ann helps everyone") is holds
    asked = model.calls[0].messages[-1].content
    assert "The person is kind" in asked
    assert "Ann helps everyone" in asked


async def test_how_sure_is_sure_enough_can_be_said() -> None:
    ai, _ = scripted({"result": True, "confidence": 0.5, "explanation": "perhaps"})
    assert await ai.evaluate_condition("c", "x", confidence_threshold=0.5)


async def test_a_confidence_that_is_none_is_repaired_or_refused() -> None:
    odd, fine = ({"result": True, "confidence": sure, "explanation": "e"} for sure in (90, 0.9))
    ai, _ = scripted(odd, fine)
    assert await ai.evaluate_condition("c", "x")
    ai, _ = scripted(odd, odd)
    with pytest.raises(InvalidModelOutput, match="confidence"):
        await ai.evaluate_condition("c", "x")


async def test_a_threshold_that_nothing_can_reach_is_refused() -> None:
    ai, model = scripted()
    with pytest.raises(ValueError, match="from 0 to 1"):
        await ai.evaluate_condition("c", "x", confidence_threshold=80)
    assert model.calls == []
