"""What a model is asked with: model, system prompt, images, templates; each `with_*` a copy of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from goalport.base.errors import ModelNotReady, TemplateError, UnknownName
from goalport.base.events import ModelCalled, ModelRetried
from goalport.knowledge.references import Reference
from goalport.models.llm import (
    AssistantMessage,
    Image,
    LlmOptions,
    ModelCall,
    ModelCard,
    Retry,
    SystemMessage,
    UserMessage,
)
from goalport.models.prompts import Conditional, CurrentDate, Persona, RoleGoalBackstory, Text
from goalport.runtime.ai import Ai, LlmOperations
from goalport.testing import ScriptedModel
from goalport.tools import Tool
from tests.rooms.ai.scripted import Watched, ai_with, scripted


class Greeting(BaseModel):
    text: str


def system_prompt(call: ModelCall) -> str:
    first = call.messages[0]
    return first.content if isinstance(first, SystemMessage) else ""


async def test_each_with_gives_a_copy_and_leaves_the_first_as_it_was() -> None:
    ai, model = scripted("one", "two", "three")
    polite = ai.with_system_prompt("Be polite.")

    await polite.generate_text("Hello")
    await ai.generate_text("Hello")
    await polite.with_prompt_contributors(Text("Be brief.")).generate_text("Hello")

    assert [system_prompt(call) for call in model.calls] == ["Be polite.", "", "Be polite.\n\nBe brief."]


async def test_the_system_prompt_is_made_of_all_who_have_something_to_say() -> None:
    card = ModelCard(name="m", provider="test", knowledge_cutoff=date(2025, 6, 1), contributors=("Think in steps.", ""))
    model = ScriptedModel(["done"], card=card)
    ai = (
        ai_with(model)
        .with_prompt_contributors(
            Persona("Ada", "a mathematician", "dry", "to be exact"),
            RoleGoalBackstory("Editor", "Shorten", "Twenty years at a paper"),
            CurrentDate(lambda: date(2026, 1, 31)),
            Conditional(lambda: False, "never said"),
        )
        .with_references(Reference("My API", "An API", "Use v2.", (Tool.of(lambda: "x", name="find"),)))
        .with_system_prompt("You are careful.")
    )

    await ai.generate_text("Go")

    assert system_prompt(model.calls[0]).split("\n\n") == [
        "You are careful.",
        "Think in steps.",
        "You are Ada.\nYour persona: a mathematician.\nYour objective is to be exact.\nYour voice: dry.",
        "Role: Editor\nGoal: Shorten\nBackstory: Twenty years at a paper",
        "Current date: 2026-01-31",
        "Reference: My API\nAn API\nUse v2.\nIts tools have names that begin with my_api_",
        "Knowledge cutoff: 2025-06-01",
    ]
    assert [tool.name for tool in model.calls[0].tools] == ["my_api_find"]


async def test_contributors_are_asked_anew_at_each_call() -> None:
    said = ["first", "second"]
    ai, model = scripted("x", "y")
    changing = ai.with_prompt_contributors(Conditional(lambda: len(said) == 2, "young", "old"))

    await changing.generate_text("Go")
    said.pop()
    await changing.generate_text("Go")

    assert [system_prompt(call) for call in model.calls] == ["young", "old"]


async def test_the_model_is_chosen_by_name_by_options_or_left_to_the_default() -> None:
    ai, _ = scripted()

    assert ai.with_llm("gpt-4.1", temperature=0.2).interaction.llm == LlmOptions(model="gpt-4.1", temperature=0.2)
    assert ai.with_llm("a").with_llm(role="best").interaction.llm == LlmOptions(role="best")
    assert ai.with_llm(LlmOptions(role="best")).with_llm(top_p=0.5).interaction.llm.role == "best"
    assert ai.with_llm("a", top_k=3).with_default_llm().interaction.llm == LlmOptions(top_k=3)
    assert ai.with_auto_llm().interaction.llm == LlmOptions(auto=True)
    assert ai.with_first_available_llm_of("a", "b").interaction.llm == LlmOptions(first_of=("a", "b"))


async def test_options_that_cannot_be_are_refused_where_they_are_written() -> None:
    ai, _ = scripted()

    with pytest.raises(ValidationError, match="temperature"):
        ai.with_llm(temperature=-1)
    with pytest.raises(ValidationError, match="finite"):
        ai.with_llm(frequency_penalty=float("nan"))


@pytest.mark.parametrize(
    ("method", "given", "words"),
    [
        ("with_llm", [3], "a model's name or LlmOptions, but came 3"),
        ("with_llm", [""], "at least 1 character"),
        ("with_first_available_llm_of", [], "at least one name"),
        ("with_tool_groups", [["web"]], r"tool groups, one by one, but came \['web'\]"),
        ("with_images", ["map.png"], r"Image\.from_path.*but came 'map.png'"),
        ("with_prompt_contributors", [3], r"Text\('…'\).*but came 3"),
        ("with_references", [3], r"Reference\(.*but came 3"),
        ("with_guard", ["no secrets"], "check_input and check_output, but came 'no secrets'"),
        ("with_system_prompt", [None], "a text, but came None"),
    ],
)
async def test_what_no_model_can_be_asked_with_is_refused_where_it_is_written(
    method: str, given: list[Any], words: str
) -> None:
    ai, _ = scripted()

    with pytest.raises((TypeError, ValueError), match=words):
        getattr(ai, method)(*given)


@pytest.mark.parametrize("messages", ["Hello", ["Hello"], [UserMessage("Hello"), None]])
async def test_what_is_no_conversation_is_refused(messages: Any) -> None:
    ai, model = scripted("never")

    for ask in (ai.respond, ai.creating(int).from_messages):
        with pytest.raises(TypeError, match=r"Expected messages, like UserMessage\('…'\)"):
            await ask(messages)
    assert not model.calls


def test_with_llm_can_change_whatever_options_there_are() -> None:
    ai, _ = scripted()
    changed = {name: ai.with_llm(**{name: value}).interaction.llm for name, value in dict(LlmOptions()).items()}
    assert {name: set(options.model_fields_set) for name, options in changed.items()} == {
        name: {name} for name in LlmOptions.model_fields
    }
    with pytest.raises(ValidationError, match="temprature"):
        ai.with_llm(temprature=0.9)  # type: ignore[call-arg]


async def test_options_reach_the_model_and_the_timeout_of_the_settings_beside_them() -> None:
    model = ScriptedModel(["x", "y"])
    ai = ai_with(model, settings=LlmOperations(default_timeout=12))

    await ai.with_llm(temperature=0.5).generate_text("Go")
    await ai.with_llm(timeout=3).generate_text("Go")

    assert [(call.options.timeout, call.timeout) for call in model.calls] == [(None, 12), (3, 12)]
    assert model.calls[0].options.temperature == 0.5


async def test_a_model_that_is_not_there_is_an_error_that_says_what_to_set() -> None:
    ai, model = scripted("never")

    with pytest.raises(ModelNotReady, match="nowhere"):
        await ai.with_llm("nowhere").generate_text("Go")
    with pytest.raises(ModelNotReady, match="best"):
        await ai.with_llm(role="best").generate_text("Go")

    assert not model.calls


async def test_images_go_with_the_newest_words_of_the_user() -> None:
    image, other = Image("image/png", b"1"), Image("image/gif", b"2")
    ai, model = scripted("x", "y")

    await ai.with_images(image).with_images(other).generate_text("What is this?")
    await ai.with_images(image).respond([UserMessage("Hi"), AssistantMessage("Hello"), UserMessage("And this?")])

    assert model.calls[0].messages == (UserMessage("What is this?", (image, other)),)
    assert model.calls[1].messages[0] == UserMessage("Hi")
    assert model.calls[1].messages[2] == UserMessage("And this?", (image,))


async def test_images_need_no_words() -> None:
    image = Image("image/png", b"1")
    ai, model = scripted("x")

    await ai.with_images(image).respond([])

    assert model.calls[0].messages == (UserMessage("", (image,)),)


async def test_a_conversation_is_answered() -> None:
    ai, model = scripted("Fine", "Ahoy")
    conversation = [UserMessage("Hi"), AssistantMessage("Hello"), UserMessage("How are you?")]

    assert await ai.respond(conversation) == AssistantMessage("Fine")
    assert await ai.respond_with_system_prompt(conversation, "Talk like a pirate.") == AssistantMessage("Ahoy")

    assert model.calls[0].messages == tuple(conversation)
    assert model.calls[1].messages == (SystemMessage("Talk like a pirate."), *conversation)


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    (tmp_path / "greet.jinja").write_text("Greet {{ name }}.", encoding="utf-8")
    (tmp_path / "maybe.jinja").write_text("Only make a {{ type }} if you can.", encoding="utf-8")
    return tmp_path


async def test_a_template_makes_prompts_of_its_variables(templates: Path) -> None:
    model = ScriptedModel([Greeting(text="Hi"), Greeting(text="Ho"), "Hello", "Hey"])
    ai = ai_with(model, templates=templates).with_template("greet")

    assert await ai.create_object(Greeting, {"name": "Ada"}) == Greeting(text="Hi")
    assert await ai.create_object_if_possible(Greeting, {"name": "Bo"}) == Greeting(text="Ho")
    assert await ai.generate_text({"name": "Cy"}) == "Hello"
    assert await ai.respond_with_system_prompt([UserMessage("Hi")], {"name": "Di"}) == AssistantMessage("Hey")

    last = [call.messages[-1] for call in model.calls[:3]]
    assert last == [UserMessage("Greet Ada."), UserMessage("Greet Bo."), UserMessage("Greet Cy.")]
    assert system_prompt(model.calls[3]) == "Greet Di."


async def test_a_template_that_is_not_there_or_lacks_a_variable_is_named(templates: Path) -> None:
    ai = ai_with(ScriptedModel(), templates=templates)

    with pytest.raises(UnknownName, match="Did you mean 'greet'"):
        await ai.with_template("great").generate_text({})
    with pytest.raises(TemplateError, match="name"):
        await ai.with_template("greet").generate_text({})


async def test_prompts_and_variables_are_not_mistaken_for_one_another(templates: Path) -> None:
    ai = ai_with(ScriptedModel(), templates=templates)

    with pytest.raises(TypeError, match="the template's variables"):
        await ai.with_template("greet").generate_text("Greet Ada.")
    with pytest.raises(TypeError, match="with_template"):
        await ai.generate_text({"name": "Ada"})
    with pytest.raises(TypeError, match="a prompt and a type"):
        await ai.create_object(Greeting, Greeting)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a prompt and a type"):
        await ai.create_object("Greet Ada.", None)


async def test_the_words_for_a_model_that_may_decline_can_come_of_a_template(templates: Path) -> None:
    model = ScriptedModel([Greeting(text="Hi"), Greeting(text="Ho")])
    settings = LlmOperations(maybe_prompt_template="maybe", generate_examples_by_default=False)
    ai = ai_with(model, templates=templates, settings=settings)

    await ai.create_object_if_possible("Greet", Greeting)
    await ai.create_object("Greet", Greeting)

    assert [system_prompt(call) for call in model.calls] == ["Only make a Greeting if you can.", ""]


async def test_a_prompt_without_a_name_is_named_after_action_and_type() -> None:
    operation = Watched()
    ai = ai_with(ScriptedModel([Greeting(text="Hi"), "x", "y"]), operation=operation)

    await ai.create_object("Greet", Greeting)
    await ai.generate_text("Greet")
    await ai.with_id("mine").generate_text("Greet")

    assert [each.interaction for each in operation.told(ModelCalled)] == ["write_up-Greeting", "write_up-text", "mine"]


async def test_a_wait_for_a_provider_is_progress() -> None:
    def hesitates(call: ModelCall) -> str:
        assert call.on_retry
        call.on_retry(Retry(attempt=1, attempts=10, delay_seconds=5, error="429"))
        return "at last"

    operation = Watched()

    assert await ai_with(ScriptedModel([hesitates]), operation=operation).generate_text("Go") == "at last"
    (told,) = operation.told(ModelRetried)
    assert told.message == "The model scripted did not answer, attempt 2 of 10 in 5.0 s: 429"


@dataclass
class Lengths:
    """An embedding service: the length of a text is its vector."""

    name: str = "lengths"
    dimensions: int | None = 1

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        return [[float(len(text))] for text in texts]


async def test_texts_become_vectors_by_the_service_of_that_name() -> None:
    ai = ai_with(ScriptedModel(), embeddings=[Lengths("first"), Lengths("second")])

    assert await ai.embed("a", "bcd") == [[1.0], [3.0]]
    assert await ai.with_embedding_service("second").embed("ab") == [[2.0]]
    assert await ai.embed() == []


def test_an_ai_says_what_it_asks_with_and_no_more() -> None:
    ai, _ = scripted()

    assert isinstance(ai.with_id("x"), Ai)
    assert "LlmEngine" not in repr(ai.with_id("x"))
