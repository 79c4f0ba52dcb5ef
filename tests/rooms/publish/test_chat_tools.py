"""How chatbots are published: their tools, prompts and companions, and what goes wrong."""

from pathlib import Path

from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent
from goalport.models.llm import UserMessage
from goalport.runtime.chat import chatbot
from goalport.server.publish.report import report_of
from tests.rooms.serve.served import published, state_of, tool_of


@chatbot(description="Knows the opening hours", scopes=["shop:talk"])
class ShopAssistant:
    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, message: UserMessage, context: ActionContext) -> None:
        await context.send_message("Always open.")


@chatbot(name="shop assistant")
class Namesake(ShopAssistant):
    """Its tool would be called as that of the other."""


@agent(description="Greets")
class Greeter:
    @achieves_goal(description="A greeting", export=Export(remote=True, name="greet"))
    def greet(self, said: UserInput) -> str:
        return f"Hello, {said.content}"


def test_a_chatbot_is_a_tool_that_takes_a_message_and_the_conversation(tmp_path: Path) -> None:
    tool = tool_of(published(tmp_path, ShopAssistant()), "chat_shop_assistant")
    assert tool.description is not None
    assert tool.description.startswith("Knows the opening hours. Gives its reply")
    assert tool.input_schema["required"] == ["message"]
    assert set(tool.input_schema["properties"]) == {"message", "conversationId"}
    assert tool.output_schema is not None
    reply, handle = tool.output_schema["anyOf"]
    assert {"reply", "conversationId", "assets", "finished"} <= set(reply["properties"])
    assert "conversationId" in handle["properties"]
    assert tool.annotations is not None
    assert (tool.annotations.read_only_hint, tool.annotations.idempotent_hint) == (False, False)


def test_the_companion_tools_and_the_resources_come_with_the_first_chatbot(tmp_path: Path) -> None:
    without, with_one = published(tmp_path, Greeter()), published(tmp_path, Greeter(), ShopAssistant())
    added = {"chat_shop_assistant", "process_status", "process_cancel", "process_answer"}
    assert set(with_one.tools) - set(without.tools) == added
    assert set(with_one.providers) - set(without.providers) == {"goalport://conversations/"}


def test_two_chatbots_that_would_be_one_tool_are_both_refused(tmp_path: Path) -> None:
    publication = published(tmp_path, ShopAssistant(), Namesake())
    assert "chat_shop_assistant" not in publication.tools
    (problem,) = (each for each in publication.problems if "tool 'chat_shop_assistant'" in each)
    assert "ShopAssistant" in problem
    assert "shop assistant" in problem


def test_its_prompt_lets_a_model_pass_a_message_on(tmp_path: Path) -> None:
    prompt = published(tmp_path, ShopAssistant()).prompts["chat_shop_assistant"]
    assert [(each.name, each.required) for each in prompt.prompt.arguments or ()] == [
        ("message", True),
        ("conversationId", False),
    ]


def test_the_report_names_the_chatbot_and_who_may_talk_to_it(tmp_path: Path) -> None:
    state = state_of(tmp_path, ShopAssistant())
    assert "  chat_shop_assistant: talk to the chatbot ShopAssistant; needs the scopes shop:talk" in list(
        report_of(state.publisher.publication, state.platform)
    )
