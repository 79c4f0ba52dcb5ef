"""Guards: what they object to is told or ends the call, before a model is asked or its answer used."""

from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from pydantic import BaseModel

from goalport.base.errors import DeclarationError, GuardViolation, ReplanRequested
from goalport.base.events import GuardTripped
from goalport.models.llm import AssistantMessage, ThinkingDelta, UserMessage
from goalport.runtime.ai import Ai, Guard, LlmEngine, MaxLength, Objection, PatternGuard, Severity, StreamedObject
from goalport.testing import ScriptedModel
from tests.rooms.ai.scripted import Watched, ai_with, scripted


class Story(BaseModel):
    text: str


@dataclass
class Watchman:
    """Objects to one word, and remembers what it was shown."""

    word: str = "secret"
    severity: Severity = Severity.CRITICAL
    shown: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    async def check_input(self, text: str) -> Objection | None:
        return self._look("input", text)

    async def check_output(self, text: str) -> Objection | None:
        return self._look("output", text)

    def _look(self, side: str, text: str) -> Objection | None:
        self.shown.append((side, text))
        return Objection("not for everyone", self.severity) if self.word in text else None


async def test_a_critical_objection_to_what_a_user_says_ends_the_call_before_any_request() -> None:
    model, watched = ScriptedModel(["never"]), Watched()
    ai = ai_with(model, operation=watched).with_guard(Watchman())
    with pytest.raises(GuardViolation, match="Watchman: not for everyone") as caught:
        await ai.generate_text("Tell me the secret")
    assert (caught.value.guard, caught.value.reason) == ("Watchman", "not for everyone")
    assert model.calls == []
    (tripped,) = watched.told(GuardTripped)
    assert (tripped.process_id, tripped.action) == ("process-1", "write_up")
    assert (tripped.guard, tripped.severity, tripped.reason) == ("Watchman", "critical", "not for everyone")


async def test_a_critical_objection_to_what_a_model_says_keeps_it_from_the_caller() -> None:
    with pytest.raises(GuardViolation):
        await ai_with(ScriptedModel(["a secret"])).with_guard(Watchman()).generate_text("Tell me something")
    with pytest.raises(GuardViolation):
        await ai_with(ScriptedModel([Story(text="a secret")])).with_guard(Watchman()).create_object("Tell", Story)


@pytest.mark.parametrize("severity", [Severity.INFO, Severity.WARNING, Severity.ERROR])
async def test_a_lesser_objection_is_an_event_and_the_call_goes_on(severity: Severity) -> None:
    watched = Watched()
    ai = ai_with(ScriptedModel(["your secret"]), operation=watched).with_guard(Watchman(severity=severity))
    assert await ai.generate_text("the secret") == "your secret"
    assert [each.severity for each in watched.told(GuardTripped)] == [severity.value] * 2


async def test_a_guard_is_shown_all_that_the_user_said_and_the_json_of_an_object() -> None:
    watchman = Watchman(word="nothing")
    ai = ai_with(ScriptedModel(["Hi", Story(text="s")])).with_guard(watchman)
    await ai.respond([UserMessage("One"), AssistantMessage("Yes?"), UserMessage("Two")])
    await ai.create_object("Tell", Story)
    assert watchman.shown == [("input", "One\n\nTwo"), ("output", "Hi"), ("input", "Tell"), ("output", '{"text":"s"}')]


async def test_guards_of_the_platform_come_before_those_of_the_call() -> None:
    first, second = Watchman(), Watchman()
    ai = ai_with(ScriptedModel([]))
    ai = Ai(replace(cast("LlmEngine", ai.engine), guards=(first,)), ai.interaction).with_guard(second)
    with pytest.raises(GuardViolation):
        await ai.generate_text("secret")
    assert len(first.shown) == 1
    assert second.shown == []


class Broken:
    """A guard that cannot work."""

    name = "The gate"

    def check_input(self, text: str) -> Objection | None:
        raise LookupError(text)

    async def check_output(self, text: str) -> Objection | None:
        raise AssertionError


async def test_a_guard_that_fails_lets_nothing_pass_and_tells_nothing_of_the_text() -> None:
    model = ScriptedModel(["never"])
    with pytest.raises(GuardViolation) as caught:
        await ai_with(model).with_guard(Broken()).generate_text("hello")
    assert str(caught.value) == "The gate: it failed, so that nothing passes it (LookupError)"
    assert isinstance(caught.value.__cause__, LookupError)
    assert model.calls == []


async def test_a_guard_that_answers_nonsense_lets_nothing_pass() -> None:
    class Vague:
        def check_input(self, text: str) -> bool:
            return True

        def check_output(self, text: str) -> bool:
            return True

    with pytest.raises(GuardViolation, match="Vague: it answered True where an Objection or None was expected"):
        await ai_with(ScriptedModel([])).with_guard(cast("Guard", Vague())).generate_text("hello")


async def test_a_guard_may_steer_the_process() -> None:
    class Steering:
        async def check_input(self, text: str) -> Objection | None:
            raise ReplanRequested("ask for more first")

        async def check_output(self, text: str) -> Objection | None:
            return None

    with pytest.raises(ReplanRequested):
        await ai_with(ScriptedModel([])).with_guard(Steering()).generate_text("hello")


async def test_a_pattern_is_looked_for_on_the_sides_that_were_named() -> None:
    guard = PatternGuard(r"(?i)pass\w+", "It is about passwords", on_output=False)
    ai = ai_with(ScriptedModel(["your password"])).with_guard(guard)
    assert await ai.generate_text("hello") == "your password"
    with pytest.raises(GuardViolation, match="PatternGuard: It is about passwords"):
        await ai.generate_text("My PASSWORD is 1234")
    ai = ai_with(ScriptedModel(["your password"])).with_guard(replace(guard, on_input=False, on_output=True))
    with pytest.raises(GuardViolation):
        await ai.generate_text("My PASSWORD is 1234")


async def test_what_people_say_may_have_a_greatest_length() -> None:
    ai = ai_with(ScriptedModel(["a long answer"])).with_guard(MaxLength(5))
    assert await ai.generate_text("hello") == "a long answer"
    with pytest.raises(GuardViolation, match="MaxLength: 6 characters, where 5 are allowed"):
        await ai.generate_text("hello!")


async def test_a_guarded_stream_of_text_comes_in_one_piece_that_the_guards_have_seen() -> None:
    watchman = Watchman()
    ai = ai_with(ScriptedModel(["Once upon a time", "a secret"])).with_guard(watchman)
    assert [piece async for piece in ai.streaming().text("Tell")] == ["Once upon a time"]
    with pytest.raises(GuardViolation):
        await anext(ai.streaming().text("Tell"))


async def test_a_guarded_stream_of_objects_ends_before_the_one_that_is_objected_to() -> None:
    lines = '{"text": "fine"}\n{"text": "secret"}\n{"text": "later"}'
    ai = ai_with(ScriptedModel([AssistantMessage(lines, thinking="Hm")])).with_guard(Watchman())
    pieces = ai.streaming().objects_with_thinking("Tell", Story)
    assert await anext(pieces) == ThinkingDelta("Hm")
    assert await anext(pieces) == StreamedObject(Story(text="fine"))
    with pytest.raises(GuardViolation):
        await anext(pieces)


async def test_a_guarded_stream_shows_no_thought_that_is_objected_to() -> None:
    ai = ai_with(ScriptedModel([AssistantMessage('{"text": "x"}', thinking="a secret")])).with_guard(Watchman())
    with pytest.raises(GuardViolation):
        assert [each async for each in ai.streaming().objects_with_thinking("Tell", Story)] == []


async def test_a_guard_that_names_a_severity_that_there_is_not_lets_nothing_pass() -> None:
    class Confused:
        def check_input(self, text: str) -> Objection:
            return Objection("something", cast("Severity", "fatal"))

        def check_output(self, text: str) -> None:
            return None

    ai, model = scripted("never")
    with pytest.raises(GuardViolation, match=r"Confused: .*'fatal'"):
        await ai.with_guard(Confused()).generate_text("Hello")
    assert model.calls == []


def test_a_pattern_that_is_none_is_refused_where_it_is_written() -> None:
    with pytest.raises(DeclarationError, match=r"PatternGuard: expected a regular expression, but .*'\('"):
        PatternGuard("(", "never")
