"""What a test says of a prompt, or of what it is asked with: a text, or whoever may judge it.

Pure. `fakes` and `models` use it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from goalport.ai import Interaction

__all__ = ["InteractionMatch", "PromptMatch", "contains", "matches", "prompt_matches", "words_of"]

PromptMatch = str | Callable[[str], bool]
"""A prompt itself, word for word, or a function that says whether it is meant: `contains("fox")`, `str.isupper`."""

InteractionMatch = Callable[[Interaction], bool]
"""Says whether settings are meant: `lambda asked: asked.llm.temperature == 0.9 and not asked.tool_groups`."""


@dataclass(frozen=True, slots=True)
class _Worded:
    """A judge that can say what it looks for."""

    words: str
    judge: Callable[[str], bool] = field(repr=False)

    def __call__(self, prompt: str) -> bool:
        return self.judge(prompt)


def contains(*texts: str) -> Callable[[str], bool]:
    """Prompts in which each of these texts is found, in whatever order."""
    words = " and ".join(map(repr, texts))
    return _Worded(f"a prompt that contains {words}", lambda prompt: all(each in prompt for each in texts))


def matches(pattern: str) -> Callable[[str], bool]:
    """Prompts in which a regular expression is found; a dot finds the ends of lines too."""
    found = re.compile(pattern, re.DOTALL)
    return _Worded(f"a prompt that matches {pattern!r}", lambda prompt: found.search(prompt) is not None)


def prompt_matches(match: PromptMatch, prompt: str) -> bool:
    """Whether a prompt is the one that is meant."""
    return match == prompt if isinstance(match, str) else bool(match(prompt))


def words_of(match: PromptMatch) -> str:
    """What is looked for, to be read in an error."""
    if isinstance(match, str):
        return f"the prompt {match!r}"
    if isinstance(match, _Worded):
        return match.words
    return f"a prompt for which {getattr(match, '__name__', repr(match))} says yes"
