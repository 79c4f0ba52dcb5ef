"""Choosing among many skills by a text: by the words that they share, or by their vectors."""

import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from goalport.base.words import folded
from goalport.knowledge.skills.skill import Skill

Embed = Callable[..., Awaitable[Sequence[Sequence[float]]]]
"""Gives a vector for each of the texts that it is called with: `ai.embed`."""
_WORD: Final = re.compile(r"[^\W_]{2,}")
_STEM: Final = 5
"""Letters at the beginning by which longer words are compared, so that `reports` and `reporting` are alike."""


def by_words(skills: Sequence[Skill], text: str) -> list[Skill]:
    """The skills that share words with a text, the best first; a word of few skills says more than one of many."""
    wanted = set(_words(text))
    own = [Counter(_words(f"{each.name} {each.name} {each.description}")) for each in skills]
    spread = Counter(word for words in own for word in words)
    weights = {word: math.log(1 + len(skills) / spread[word]) for word in wanted if word in spread}
    return _best(skills, [sum(weights[word] * math.sqrt(words[word]) for word in weights) for words in own])


async def by_meaning(
    skills: Sequence[Skill], text: str, embed: Embed, known: dict[str, Sequence[float]]
) -> list[Skill]:
    """The skills by the likeness of their vectors to that of a text; `known` keeps the vectors of descriptions."""
    written = {each.name: f"{each.name}: {each.description}" for each in skills}
    missing = [each for each in dict.fromkeys(written.values()) if each not in known]
    wanted, *found = await embed(text, *missing)
    known.update(zip(missing, found, strict=True))
    return _best(skills, [_cosine(wanted, known[written[each.name]]) for each in skills])


def _best(skills: Sequence[Skill], scores: Sequence[float]) -> list[Skill]:
    pairs: Mapping[int, float] = {number: score for number, score in enumerate(scores) if score > 0}
    return [skills[number] for number in sorted(pairs, key=lambda number: (-pairs[number], number))]


def _words(text: str) -> list[str]:
    return [each[:_STEM] for each in _WORD.findall(folded(text))]


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    size = math.sqrt(sum(each * each for each in one)) * math.sqrt(sum(each * each for each in other))
    return sum(first * second for first, second in zip(one, other, strict=True)) / size if size else 0.0
