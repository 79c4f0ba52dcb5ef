"""The ids of processes, which are secrets of those who started them."""

import re
import secrets
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

ID: Final = re.compile(r"[A-Za-z0-9._-]+")
"""What every id matches. A store need not be asked for another text, nor can each store take any text."""

_ADJECTIVES = """
amber bold brisk calm clear crisp deft eager early fair fleet fond frank fresh gentle glad grand green happy hardy
honest humble keen kind lively lucid merry mild neat nimble noble plain proud quick quiet rapid ready silver smart
snug solid sound spry steady still sunny swift tidy true vivid warm wise witty young zesty
"""
_NOUNS = """
badger beaver bison crane curlew deer dove eagle egret falcon ferret finch fox gannet goose hare hawk heron horse
ibis jackdaw kestrel kite lark linnet lynx magpie marten merlin mole moose newt osprey otter owl panda pelican
pigeon plover puffin rabbit raven robin salmon seal shrew sparrow stork swan swift tern thrush toad trout vole wren
"""
_UNFIT = re.compile(r"[^A-Za-z0-9._]+")
_FIRST, _SECOND = _ADJECTIVES.split(), _NOUNS.split()


@lru_cache
def _marked(labels: Sequence[str]) -> str:
    return "".join(f"{_UNFIT.sub('-', label)}-" for label in labels)


def new_id(*labels: str) -> str:
    """An id such as `quiet-otter-4f1c9a02d7be`: optional labels, two words that are easy to say, and 48 random bits."""
    words, digits = divmod(secrets.randbits(72), 1 << 48)
    second, first = divmod(words, len(_FIRST))
    return f"{_marked(labels)}{_FIRST[first]}-{_SECOND[second % len(_SECOND)]}-{digits:012x}"
