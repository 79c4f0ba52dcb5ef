"""Matching prompts and settings of requests: a text, or a function that decides.

The functions are pure. `fakes` and `models` use them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from goalport.ai import Interaction

__all__ = ["InteractionMatch", "PromptMatch", "contains", "matches", "prompt_matches", "words_of"]

PromptMatch = str | Callable[[str], bool]
"""A prompt, word for word, or a function that decides whether a prompt matches: `contains("fox")`, `str.isupper`."""

InteractionMatch = Callable[[Interaction], bool]
"""Decides whether settings match: `lambda asked: asked.llm.temperature == 0.9 and not asked.tool_groups`."""


@dataclass(frozen=True, slots=True)
class _Worded:
    """A matching function that can describe what it looks for."""

    words: str
    judge: Callable[[str], bool] = field(repr=False)

    def __call__(self, prompt: str) -> bool:
        return self.judge(prompt)


def contains(*texts: str) -> Callable[[str], bool]:
    """Matches prompts that contain each of these texts, in any order."""
    words = " and ".join(map(repr, texts))
    return _Worded(f"a prompt that contains {words}", lambda prompt: all(each in prompt for each in texts))


def matches(pattern: str) -> Callable[[str], bool]:
    """Matches prompts in which a regular expression is found; a dot matches line breaks too."""
    found = re.compile(pattern, re.DOTALL)
    return _Worded(f"a prompt that matches {pattern!r}", lambda prompt: found.search(prompt) is not None)


def prompt_matches(match: PromptMatch, prompt: str) -> bool:
    """Whether a prompt matches."""
    return match == prompt if isinstance(match, str) else bool(match(prompt))


def words_of(match: PromptMatch) -> str:
    """A description of the match, for an error message."""
    if isinstance(match, str):
        return f"the prompt {match!r}"
    if isinstance(match, _Worded):
        return match.words
    return f"a prompt for which {getattr(match, '__name__', repr(match))} says yes"
