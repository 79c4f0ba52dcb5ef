"""Secrets are hidden from everything that is said, for as long as somebody keeps them."""

import gc
import logging

import pytest

from goalport import AgentPlatform, UserInput, achieves_goal, agent
from goalport.base.secrecy import SecretHider, hide_known, register_secrets
from tests.rooms.toy_domain import Draft


class Keeper:
    pass


def test_a_secret_is_hidden_until_whoever_keeps_it_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    keeper = Keeper()
    register_secrets(keeper, ["open-sesame-17", "open-barley-23"])
    logging.getLogger("somebody").warning("Say open-sesame-17")
    assert hide_known("open-sesame-17, open-barley-23") == "***, ***"
    assert caplog.messages == ["Say ***"]
    del keeper
    gc.collect()
    assert hide_known("open-sesame-17, open-barley-23") == "open-sesame-17, open-barley-23"


def test_a_program_that_makes_records_of_what_others_logged_still_can() -> None:
    keeper = Keeper()
    register_secrets(keeper, ["s3cret-token"])
    record = logging.makeLogRecord({"name": "theirs", "msg": "done"})
    assert (record.name, record.getMessage()) == ("theirs", "done")


@pytest.mark.parametrize("length", [1, 2, 3, 7, 50])
def test_a_secret_is_hidden_in_pieces_of_any_length(length: int) -> None:
    keeper = Keeper()
    register_secrets(keeper, ["open-sesame-17", "opera-glass"])
    text = "Say open-sesame-17, not open-sesame, at the operatic opera-glass or the ope"
    hider = SecretHider()
    pieces = [hider.next(text[at : at + length]) for at in range(0, len(text), length)]
    told = "".join([*pieces, hider.end()])
    assert told == "Say ***, not open-sesame, at the operatic *** or the ope"
    assert SecretHider().next("Say it") == "Say it"


class Kept(logging.Handler):
    """A handler of the application, with a formatter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.text += f"{logging.Formatter().format(record)}\n{error!r}\n"


async def test_no_handler_of_the_application_sees_a_key_that_a_provider_repeats(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @agent(description="d")
    class Asks:
        @achieves_goal(description="g")
        async def ask(self, user_input: UserInput) -> Draft:
            raise RuntimeError("Incorrect API key provided: sk-proj-0123456789abcdef") from ValueError(
                "Bearer 12345678"
            )

    handler = Kept()
    logging.getLogger().addHandler(handler)
    caplog.set_level(logging.INFO, "goalport")
    try:
        await AgentPlatform([Asks]).run("Asks", UserInput("x"))
    finally:
        logging.getLogger().removeHandler(handler)
    assert "Incorrect API key provided: ***" in handler.text
    assert "0123456789abcdef" not in handler.text
    assert "12345678" not in handler.text
