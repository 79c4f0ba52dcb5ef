"""What models and tools do, as lines in the log: with what was said only where somebody asked for it."""

import json
import logging

import pytest

from goalport import AgentPlatform, Ai, ProcessOptions, UserInput, achieves_goal, agent
from goalport.base.events import Event, GuardTripped, ModelCalled, ModelReplied, ToolCalled, ToolReturned
from goalport.base.observe import PERSONALITIES, LogListener, PromptListener, as_json, in_words
from goalport.runtime.process import Verbosity
from goalport.testing import ScriptedModel
from tests.rooms.toy_domain import Story

CALLED = ModelCalled("draft-Story", "gpt-5", "my secret", 1, "draft", process_id="p1")
REPLIED = ModelReplied("draft-Story", "gpt-5", "its secret", (), 1200, 34, 0.0125, 1.5, "draft", process_id="p1")
WANTS = ModelReplied("draft-Story", "gpt-5", "", ("add", "sub"), 10, 5, 0.0, 0.25, "draft")
FAILED = ModelReplied("draft-Story", "gpt-5", "", (), 0, 0, 0.0, 2, "draft", "gpt-5 did not answer in time")


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (CALLED, "asks gpt-5 for draft-Story"),
        (ModelCalled("draft-Story", "gpt-5", "x", 3), "asks gpt-5 for draft-Story, turn 3"),
        (REPLIED, "gpt-5 answered after 1.500 s (1,200 tokens in, 34 out, 0.0125 USD)"),
        (WANTS, "gpt-5 wants add, sub called after 0.250 s (10 tokens in, 5 out, 0.0000 USD)"),
        (FAILED, "gpt-5 gave no answer: gpt-5 did not answer in time"),
        (ToolCalled("add", '{"secret": 1}'), "calls the tool add"),
        (ToolReturned("add", 0.5, is_error=False, result="a secret"), "the tool add answered after 0.500 s"),
        (ToolReturned("add", 0.5, is_error=True, result="a secret"), "the tool add failed after 0.500 s"),
        (GuardTripped("Manners", "warning", "rude"), "Manners objects (warning): rude"),
    ],
)
def test_a_line_says_what_is_done_and_not_what_is_said(event: Event, words: str) -> None:
    assert in_words(event) == words


def test_failures_and_objections_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "goalport.process")
    for event in (FAILED, GuardTripped("G", "error", "r"), GuardTripped("G", "info", "r"), CALLED, REPLIED):
        LogListener().on_event(event)
    assert [each.levelname for each in caplog.records] == ["WARNING", "WARNING", "INFO", "DEBUG", "DEBUG"]


@pytest.mark.parametrize("name", PERSONALITIES)
def test_every_personality_has_words_for_models_tools_and_guards(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "goalport.process")
    for event in (CALLED, ToolCalled("add", "{}"), GuardTripped("Manners", "warning", "rude"), FAILED):
        LogListener(name).on_event(event)
    asked, tool, guard, failed = (each.message for each in caplog.records)
    assert "gpt-5" in asked
    assert "add" in tool
    assert "Manners" in guard
    assert "rude" in guard
    assert "did not answer in time" in failed
    assert "secret" not in caplog.text


def test_prompts_and_replies_are_logged_word_for_word_for_who_wants_them(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "goalport.process")
    for listener in (PromptListener(replies=False), PromptListener(prompts=False)):
        for event in (CALLED, REPLIED, GuardTripped("G", "error", "r")):
            listener.on_event(event)
    assert [each.message for each in caplog.records] == [
        "p1: asks gpt-5 for draft-Story:\nmy secret",
        "p1: gpt-5 answered after 1.500 s (1,200 tokens in, 34 out, 0.0125 USD):\nits secret",
    ]


def test_a_trace_holds_every_field_of_what_models_did() -> None:
    told = json.loads(json.dumps(as_json(WANTS)))
    assert (told["event"], told["tool_calls"], told["interaction"]) == ("ModelReplied", ["add", "sub"], "draft-Story")


@agent(description="Writes")
class Writer:
    @achieves_goal(description="A story")
    async def write(self, user_input: UserInput, ai: Ai) -> Story:
        return await ai.with_id("a story").create_object(f"Tell of {user_input.content}", Story)


@pytest.mark.parametrize(
    ("verbosity", "lines"),
    [
        (Verbosity(show_prompts=True), ["\n\nuser:\nTell of foxes"]),
        (Verbosity(show_llm_responses=True), ['0.0010 USD):\n{"text":"Once"}']),
        (
            Verbosity(show_prompts=True, show_llm_responses=True),
            ["\n\nuser:\nTell of foxes", '0.0010 USD):\n{"text":"Once"}'],
        ),
        (Verbosity(), []),
    ],
)
async def test_a_run_shows_prompts_and_replies_as_its_verbosity_says(
    verbosity: Verbosity, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "goalport.process")
    platform = AgentPlatform([Writer], models=ScriptedModel([Story("Once")]))
    await platform.run("Writer", UserInput("foxes"), options=ProcessOptions(verbosity=verbosity))
    logged = [each.message for each in caplog.records]
    assert len(logged) == len(lines)
    assert all(message.endswith(line) for message, line in zip(logged, lines, strict=True))
