"""A client that shows forms and addresses is asked in each kind of question that it can show."""

from pathlib import Path

import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitRequestURLParams, ElicitResult

from tests.rooms.serve.askers import call, handle_of
from tests.rooms.serve.inn import Inn
from tests.rooms.serve.served import ERAS, served, text_of


@pytest.mark.parametrize("era", ERAS)
async def test_what_can_be_shown_is_shown_and_a_form_with_a_secret_goes_by_the_handle(tmp_path: Path, era: str) -> None:
    asked: list[str] = []
    answers = {
        "Which room?": {"choice": "14"},
        "What brings you here?": {"answer": "The sea"},
        "https://example.com/deposit?stay=1": None,
        "Leave a deposit.\n\nSend this once it is done there.": {"confirmed": True},
    }

    async def person(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.url if isinstance(params, ElicitRequestURLParams) else params.message)
        return ElicitResult.model_validate({"action": "accept", "content": answers.get(asked[-1])})

    async with served(tmp_path, Inn()) as server, server.client(era, elicitation_callback=person) as client:
        handle = handle_of(server, "take_room", await call(client, "take_room", content="a room"))
        assert asked == [*answers]
        (question,) = handle["questions"]
        assert question["message"] == "Is that right?"
        last = await call(client, "process_answer", processId=handle["processId"], answer={})
        assert text_of(last) == "Ada, 2 nights in Garden: The sea"
