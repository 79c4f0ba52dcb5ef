"""Mistakes in chatbots that `goalport check` tells: no answer, one answer only, and what runs without being asked."""

import re
from dataclasses import dataclass

from goalport.agents.domain import Export, UserInput, achieves_goal, action, agent, chatbot, component, condition, state
from goalport.models.llm import UserMessage
from goalport.runtime.chat import Conversation, open_chatbot
from goalport.runtime.platform import AgentPlatform, mistakes_in, remarks_in

HERE = r"\(tests/rooms/platform/test_chatbot_inspection.py:\d+\): expected "


class Talk:
    """Something that a chatbot is given, and that no action makes."""


@dataclass(frozen=True)
class Order: ...


@dataclass(frozen=True)
class Delivery: ...


@dataclass(frozen=True)
class Wish: ...


def told(*declared: object) -> list[str]:
    platform = AgentPlatform(declared)
    return [str(each) for each in mistakes_in(platform.agents, platform.groups)]


def remarks(*declared: object) -> tuple[str, ...]:
    platform = AgentPlatform(declared)
    return remarks_in(platform.agents, platform.groups)


def only(*declared: object) -> str:
    (mistake,) = told(*declared)
    return mistake


@state
@dataclass(frozen=True)
class Ordering:
    wish: Wish

    @action(trigger=UserMessage)
    def take(self, talk: Talk) -> Order:
        return Order()


@chatbot(description="Sells cakes")
class Fine:
    @condition
    def is_late(self, talk: Talk) -> bool:
        return False

    @action(trigger=UserMessage, can_rerun=True)
    def respond(self, talk: Talk) -> None: ...

    @action(trigger=Delivery, can_rerun=True)
    def report(self, talk: Talk) -> None: ...

    @action(trigger=UserMessage)
    def begin(self, message: UserMessage) -> Ordering:
        return Ordering(Wish())

    @action(pre=["is_late"], can_rerun=True)
    def apologise(self, talk: Talk) -> None: ...

    @achieves_goal(description="Sell a cake", export=Export(starting_input_types=[UserInput]))
    @action(trigger=Order)
    def sell(self, order: Order) -> str:
        return "Sold"


def test_a_chatbot_that_answers_and_reacts_to_events_has_no_mistake() -> None:
    assert told(Fine()) == []
    assert remarks(Fine()) == ()


@chatbot(description="Never stops")
class Restless:
    @action(trigger=UserMessage, can_rerun=True)
    def respond(self, talk: Talk) -> None: ...

    @action(can_rerun=True)
    def chatter(self, talk: Talk) -> None: ...


def test_an_action_without_a_trigger_that_would_run_until_the_budget_is_spent_is_told() -> None:
    mistake = only(Restless())

    assert re.search(f"Restless.chatter {HERE}a trigger", mistake)
    assert "again and again until the budget of a turn is spent" in mistake
    assert "trigger=UserMessage" in mistake
    assert remarks(Restless()) == ()


@state
@dataclass(frozen=True)
class Choosing:
    wish: Wish

    @action
    def choose(self, message: UserMessage) -> Order:
        return Order()


@chatbot(description="Confirms what is ordered")
class Clerk:
    @action(can_rerun=True)
    def respond(self, message: UserMessage) -> Choosing:
        return Choosing(Wish())

    @action(can_rerun=True)
    def confirm(self, message: UserMessage, order: Order) -> None: ...

    @action(trigger=Order, can_rerun=True)
    def count(self, message: UserMessage, order: Order) -> None: ...

    @action(can_rerun=True)
    def mention(self, message: UserMessage | None, talk: Talk) -> None: ...


def test_an_action_that_takes_a_message_needs_no_trigger_unless_it_also_takes_what_another_one_makes() -> None:
    mistake = only(Clerk())
    (remark,) = remarks(Clerk())

    assert re.search(f"Clerk.mention {HERE}a trigger", mistake)
    assert "Clerk.confirm" in remark
    assert "it waits for the message after that" in remark
    assert "`trigger=Order`" in remark


@chatbot(description="Greets")
class Eager:
    @action(trigger=UserMessage, can_rerun=True)
    def respond(self, talk: Talk) -> Wish:
        return Wish()

    @action
    def greet(self, talk: Talk) -> None: ...

    @action
    def note(self, wish: Wish) -> None: ...


def test_an_action_that_runs_without_being_asked_is_remarked_and_one_that_waits_for_a_result_is_not() -> None:
    (remark,) = remarks(Eager())

    assert "Eager.greet" in remark
    assert "without being asked" in remark
    assert told(Eager()) == []


@chatbot(description="Answers once")
class Curt:
    @action(trigger=UserMessage)
    def respond(self, talk: Talk) -> None: ...


def test_an_action_that_answers_only_the_first_message_is_told() -> None:
    mistake = only(Curt())

    assert re.search(f"Curt.respond {HERE}to run again", mistake)
    assert "after its first UserMessage it is done" in mistake


@chatbot(description="Deaf")
class Deaf:
    @action(trigger=Delivery, can_rerun=True)
    def report(self, talk: Talk) -> None: ...


@component
class Listening:
    @action(trigger=UserMessage, can_rerun=True)
    def listen(self, talk: Talk) -> None: ...


def test_a_chatbot_that_answers_nobody_is_told_unless_a_component_answers() -> None:
    mistake = only(Deaf())

    assert "Deaf" in mistake
    assert "or has the trigger UserMessage" in mistake
    assert told(Deaf(), Listening()) == []


@component
class Chatty:
    @action(trigger=UserMessage, can_rerun=True)
    def answer(self, message: UserMessage) -> None: ...

    @action
    def look_out(self, talk: Talk) -> Wish:
        return Wish()

    @action(can_rerun=True)
    def wish(self, wish: Wish) -> None: ...


def test_what_a_chatbot_of_all_actions_runs_without_being_asked_is_remarked_in_one_sentence() -> None:
    (remark,) = remarks(open_chatbot("everything"), Chatty())

    assert remark.endswith("since they have no trigger: Chatty.look_out.")
    assert told(open_chatbot("everything"), Chatty()) == []
    assert "or has the trigger UserMessage" in only(open_chatbot("everything"))


@agent(description="Nobody talks to it")
class Alone:
    @achieves_goal(description="Print")
    @action
    def print_it(self, user_input: UserInput) -> str:
        return ""

    @action(trigger=UserMessage, can_rerun=True)
    def respond(self, user_input: UserInput) -> None: ...


def test_a_message_that_nobody_can_say_to_an_agent_is_told_with_what_makes_it_a_chatbot() -> None:
    assert "mark the class with @chatbot" in only(Alone())


@chatbot(description="Asks before it repairs, and closes orders")
class Workshop:
    @condition
    def wanted(self, message: UserMessage) -> bool:
        return "repair" in message.content

    @condition
    def leaving(self, message: UserMessage) -> bool:
        return "goodbye" in message.content

    @action(trigger=UserMessage, can_rerun=True)
    def listen(self, conversation: Conversation) -> None: ...

    @action(trigger=UserMessage, can_rerun=True, pre=["wanted"])
    def repair(self) -> None: ...

    @achieves_goal(description="Close an order")
    @action(trigger=UserMessage, pre=["leaving"])
    def close(self, conversation: Conversation) -> Order:
        return Order()


def test_a_goal_of_a_chatbot_may_take_the_conversation_that_there_always_is() -> None:
    assert told(Workshop()) == []
