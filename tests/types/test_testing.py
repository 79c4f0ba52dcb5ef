"""What users write in their tests keeps its types: pyright checks these lines, and they run."""

from typing import assert_type

from pydantic import BaseModel

from goalport import ActionContext, Ai, OperationContext
from goalport.models.llm import LlmOptions, Models, ThinkingDelta
from goalport.runtime.ai import Determination, Interaction
from goalport.testing import Answers, FakeEngine, FakeOperationContext, LlmInvocation, ScriptedModels, contains


class Story(BaseModel):
    text: str


class Poem(BaseModel):
    lines: list[str]


STORY = Story(text="Once")


def test_a_fake_context_is_a_context_and_has_an_ai() -> None:
    context = FakeOperationContext(STORY)
    wanted: OperationContext = context
    action: ActionContext = context
    assert wanted is action
    assert_type(context.ai, Ai)
    assert_type(FakeEngine().ai, Ai)
    assert_type(context.last(Story), Story | None)
    assert_type(context.llm_invocations, list[LlmInvocation])


async def test_an_invocation_shows_prompt_and_settings_as_what_they_are() -> None:
    engine = FakeEngine("x")
    await engine.ai.generate_text("Go")
    asked = engine.llm_invocations[0]
    assert_type(asked.prompt, str)
    assert_type(asked.interaction, Interaction)
    assert_type(asked.interaction.llm, LlmOptions)
    assert_type(asked.interaction.llm.temperature, float | None)
    assert_type(asked.interaction.tool_groups, tuple[str, ...])


def test_answers_are_of_the_type_that_is_asked_for() -> None:
    models = ScriptedModels()
    catalogue: Models = models
    assert catalogue.problems() == ()
    assert_type(models.when_create_object("…", Story), Answers[Story])
    assert_type(models.when_create_object(contains("…"), list[Story]), Answers[list[Story]])
    assert_type(models.when_create_object(str.isupper, Story | Poem), Answers[Story | Poem])
    assert_type(models.when_generate_text("…"), Answers[str])
    assert_type(models.when_evaluate_condition("…"), Answers[bool | Determination])
    assert_type(models.when_create_object("…", Story).then_return(STORY, None), Answers[Story])
    assert_type(models.when_create_object("…", Story).then_stream(ThinkingDelta("hm"), STORY), Answers[Story])
    models.when_generate_text("…", lambda asked: assert_type(asked, Interaction).llm.temperature == 0)
    models.when_generate_text("…").then_reply(lambda call: call.messages[-1].content)


def refused(models: ScriptedModels) -> None:
    """Never run: each line must be refused by the type checker."""
    models.when_create_object("…", Story).then_return(Poem(lines=[]))  # type: ignore[arg-type]
    models.when_create_object("…", Story).then_stream("Once")  # type: ignore[arg-type]
    models.when_generate_text("…").then_return(STORY)  # type: ignore[arg-type]
    models.when_generate_text(3)  # type: ignore[arg-type]
    models.verify_generate_text_matching("…", lambda asked: asked.temperature == 0)  # type: ignore[attr-defined]
