"""A choice, a text, an address and a draft, answered over HTTP."""

from pathlib import Path

from tests.rooms.rest.web import web
from tests.rooms.serve.inn import Inn


async def test_each_kind_of_question_says_what_its_answer_is(tmp_path: Path) -> None:
    async with web(tmp_path, Inn()) as server:
        state = (await server.start("take_room", {"content": "a room"})).json()
        assert state["options"] == [
            {"label": "Attic", "response": {"choice": "12"}},
            {"label": "Garden", "response": {"choice": "14"}},
        ]
        wrong = await server.resume(state, {"choice": "Cellar"})
        assert wrong.status_code == 422
        assert "choice" in wrong.text
        state = (await server.resume(state, "Garden")).json()
        assert state["schema"]["required"] == ["answer"]
        state = (await server.resume(state, "The sea")).json()
        assert state["url"] == "https://example.com/deposit?stay=1"
        state = (await server.resume(state, response=True)).json()
        assert state["schema"]["properties"]["nights"]["default"] == 2
        ended = await server.resume(state, {"nights": 3})
        assert (ended.status_code, ended.json()["result"]) == (
            200,
            {"content": "Ada, 3 nights in Garden: The sea"},
        )
