"""The MCP Inspector's page in Chromium: what a person sees of a question, and how the answer gets into the process."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from agents.write_and_review.stages import REVIEWER
from tests.agents.adventure.nights import DOOR, EGYPT, TO_TEA
from tests.clients.asking import ADDRESS, MESSAGES, STAY
from tests.clients.inspector_page import InspectorPage, Seen, inspector_page
from tests.clients.running import CLIENTS, ROOT, serving
from tests.providers import Providers

REVISIONS = NOW, NEXT = "2025-11-25", "2026-07-28"
AS_TASK, AS_RETRY = "via a tasks/update request", "as a retry of the original request"
FIRST, SECOND = "A heron learned to read.", "A heron learned to read, and laughed."


@pytest.fixture(scope="module")
def page(
    node: str, chromium: str, provider_process: Providers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InspectorPage]:
    """The Inspector's page, and a server for it: the small workspace with two shipped agents, and a mock's models."""
    workspace, scratch = tmp_path_factory.mktemp("workspace"), tmp_path_factory.mktemp("scratch")
    shutil.copytree(CLIENTS / "workspace" / "agents", workspace / "agents")
    for name in ("adventure", "write_and_review"):
        shutil.copytree(ROOT / "agents" / name, workspace / "agents" / name)
    keys = "".join(f"{name}={value}\n" for name, value in provider_process.environment.items())
    (workspace / ".env").write_text(keys)
    with (
        serving(workspace, scratch, default_llm="openai:gpt-4.1-mini") as server,
        inspector_page(node, chromium, server.target("http")[0], scratch) as page,
    ):
        yield page


def check(seen: Seen, message: str, **fields: Any) -> None:
    """Check a question: its message, and the options or the value of each of its fields, in their order."""
    assert seen["message"] == message
    assert [(name, each.get("options", each["value"])) for name, each in seen["fields"].items()] == [*fields.items()]


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_kind_of_form_is_shown_and_sent_and_one_that_is_refused_is_asked_again(
    page: InspectorPage, revision: str
) -> None:
    page.connect(revision)
    seen = page.call("take_room", content="a room by the sea")
    check(seen, MESSAGES[0], choice=["Attic", "Garden"])
    assert not seen["complete"], "nothing is chosen yet"
    assert [AS_TASK in each for each in seen["notes"]] == ([True] if revision == NEXT else [])

    seen = page.submit(choice="Garden")
    check(seen, MESSAGES[1], answer="")

    seen = page.submit(answer="The sea")
    who: dict[str, Any] = {"Name": "Ada", "nights": "2", "most": "99.5", "meal": ["breakfast", "supper"], "pets": False}
    check(seen, MESSAGES[2], **who, **{"street": "Kirkeveien 1", "Home: City": "Oslo"})
    assert seen["complete"], "a draft has all of it"
    assert seen["fields"]["most"]["description"] == "The most that a night may cost (more than 0)"

    seen = page.submit(most=0)
    assert seen["message"].endswith(MESSAGES[2]), "it is asked again"
    assert "most: should be" in seen["message"]

    seen = page.submit(nights=3, most=120, meal="supper", pets=True, **{"Home: City": "Bergen"})
    check(seen, MESSAGES[3], wanted=["towels", "bicycle", "boat"])

    seen = page.submit(wanted=["towels", "boat"])
    check(seen, MESSAGES[4], Yes=False)

    assert page.submit(Yes=True)["result"] == STAY
    if revision == NEXT:
        assert "Completed (1)" in page.look_at("Tasks")


def test_a_call_that_ends_with_its_question_is_repeated_with_the_answer(page: InspectorPage) -> None:
    page.connect(NEXT)
    seen = page.call("hold_room", content="a room by the sea")
    check(seen, MESSAGES[0], choice=["Attic", "Garden"])
    (note,) = seen["notes"]
    assert AS_RETRY in note
    assert page.submit(choice="Attic")["result"] == "Attic is held"


def test_an_address_is_shown_and_opened_before_the_person_is_asked_whether_it_is_done(page: InspectorPage) -> None:
    page.connect(NEXT)
    seen = page.call("take_deposit", content="a room by the sea")
    assert (seen["message"], seen["address"]) == ("Leave a deposit.", ADDRESS)
    page.press("Open in Browser")
    seen = page.press("I've completed it")
    assert seen["message"].startswith("Leave a deposit.")
    assert seen["address"] is None
    assert page.submit(**{"It is done": True})["result"] == f"paid at {ADDRESS}"


def test_the_choices_of_the_adventure_are_a_list_and_a_form_that_is_closed_gives_the_handle(
    page: InspectorPage,
) -> None:
    page.connect(NOW)
    hall = page.call("play_adventure", name="Ada")
    assert {DOOR, TO_TEA, EGYPT} <= {*hall["fields"]["choice"]["options"]}
    tea_room = page.submit(choice=TO_TEA)
    assert tea_room["message"] != hall["message"]
    handle = page.press("Cancel")["result"]
    assert "Do not call play_adventure again" in handle
    assert tea_room["message"] in handle


def test_a_story_is_written_and_reviewed_with_a_person_at_the_page(page: InspectorPage, aimock: Providers) -> None:
    aimock.answer("Write a short story", content={"text": FIRST})
    aimock.answer("Revise a short story", content={"text": SECOND})
    aimock.answer("It should laugh", content={"acceptable": False})
    aimock.answer("I like it", content={"acceptable": True})
    aimock.answer("Review this short story", content="Short and sweet.")
    page.connect(NEXT)
    seen = page.call("write_and_review_story", content="a heron that learns to read")
    assert seen["message"].endswith(FIRST)
    assert seen["fields"]["Comments"]["required"]
    seen = page.submit(Comments="It should laugh.")
    assert seen["message"].endswith(SECOND)
    result = page.submit(Comments="I like it.")["result"]
    assert result.startswith(f"{SECOND}\n\n*{REVIEWER.name}:* Short and sweet.")
