"""What a message asks for, by its words, for the costs of actions, which are computed anew for each message. Pure.

A message that is none of these is a question.
"""

import re
from typing import Final

__all__ = ["asks_for_help", "asks_for_steps", "page_turn", "proposed"]

_GREETING: Final = re.compile(r"(?i)\W*(hi|hello|hey|good (morning|afternoon|evening)|thanks|thank you)\b[^?]{0,20}")
_HELP: Final = re.compile(r"(?i)\W*(help|what can you do|what do you do|who are you|what can i ask)( me| you)?\W*")
_STEPS: Final = re.compile(r"(?i)\b(step by step|walk me through|take me through|read me|read with me)\b[\W_]*")
_TURN: Final = re.compile(r"(?i)\W*(next|go on|continue|more|back|previous|stop|enough|leave)\W*")
_PROPOSAL: Final = re.compile(r"(?is)\s*(?:please )?(?:note|propose|proposal|suggestion|correction)\s*:\s*(.*)")
_BACK: Final = frozenset({"back", "previous"})
_STOP: Final = frozenset({"stop", "enough", "leave"})


def asks_for_help(text: str) -> bool:
    """Whether somebody greets, thanks, or wants to know what they can ask."""
    return bool(_GREETING.fullmatch(text) or _HELP.fullmatch(text)) or not text.strip()


def asks_for_steps(text: str) -> str:
    """What somebody wants to read step by step; empty: they do not."""
    return _STEPS.sub(" ", text).strip(" \n.,:;!?") if _STEPS.search(text) else ""


def page_turn(text: str) -> int | None:
    """How many sections somebody who reads wants to go on: 1, -1, or 0 to stop; None: they say something else."""
    found = _TURN.fullmatch(text)
    if found is None:
        return None
    word = found[1].lower()
    return -1 if word in _BACK else 0 if word in _STOP else 1


def proposed(text: str) -> str:
    """What somebody proposes to change, such as after `note:`; empty: nothing."""
    found = _PROPOSAL.fullmatch(text)
    return found[1].strip() if found else ""
