"""Conversations at several servers that share a store: any of them goes on with what another has begun."""

from pathlib import Path

import pytest

from tests.rooms.serve.askers import Answering, call, handle_of
from tests.rooms.serve.served import ERAS, served
from tests.rooms.serve.test_chatting import YES, Parrot, Payer, reply_of, say


@pytest.mark.parametrize("era", ERAS)
async def test_a_conversation_goes_on_at_another_server(tmp_path: Path, era: str) -> None:
    async with (
        served(tmp_path, Parrot(), store="sqlite") as one,
        served(tmp_path, Parrot(), store="sqlite") as two,
        one.client(era) as here,
        two.client(era) as there,
    ):
        known = reply_of(await say(here, "chat_parrot", "one"))["conversationId"]
        for number, (client, word) in enumerate([(there, "two"), (here, "three"), (there, "four")], 2):
            assert reply_of(await say(client, "chat_parrot", word, known))["reply"] == f"{number}: one … {word}"


async def test_a_question_that_one_server_asks_is_answered_at_another(tmp_path: Path) -> None:
    person = Answering.with_(YES)
    async with (
        served(tmp_path, Payer(), store="sqlite") as one,
        served(tmp_path, Payer(), store="sqlite") as two,
        one.client() as here,
        two.client() as there,
        two.client(elicitation_callback=person) as asked,
    ):
        handle = handle_of(one, "chat_payer", await say(here, "chat_payer", "pay 5"))
        paid = reply_of(await call(there, handle["next"]["tool"], **handle["next"]["arguments"] | {"answer": True}))
        assert paid["reply"] == "Let me ask.\n\nPaid."
        assert reply_of(await call(here, "process_status", processId=handle["processId"])) == paid
        again = reply_of(await say(asked, "chat_payer", "pay 6", paid["conversationId"]))
        assert again["reply"] == "Let me ask.\n\nPaid."
    assert person.asked == ["Really pay 6?"]
