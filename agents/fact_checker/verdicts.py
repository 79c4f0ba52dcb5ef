"""How one verdict is made of what several models find: by counting, and by no model. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, get_args

from .facts import FactCheck, Finding, Link, Opinion, Verdict

__all__ = ["consolidated"]

_MINORITY: Final = 0.25
"""Above this share of the confidence, the weaker side of true and false makes an assertion disputed."""


def consolidated(claim: str, findings: Sequence[Finding]) -> FactCheck:
    """What the findings about an assertion amount to; without any it is unverifiable."""
    verdict, confidence = _verdict(findings)
    sides = [_of(findings, each) for each in (("true", "false") if verdict == "disputed" else (verdict,))]
    return FactCheck(
        claim=claim,
        verdict=verdict,
        confidence=round(confidence, 3),
        explanation=_explanation([side[0] for side in sides if side]),
        links=_links(finding for side in sides for finding in side),
        findings=list(findings),
    )


def _verdict(findings: Sequence[Finding]) -> tuple[Verdict, float]:
    """The verdict with the most confidence behind it, and the share of the models that this is."""
    true, false, unknown = (sum(each.confidence for each in _of(findings, side)) for side in get_args(Opinion))
    number = len(findings) or 1
    if unknown >= true + false:
        return "unverifiable", unknown / number
    if min(true, false) > _MINORITY * (true + false):
        return "disputed", 2 * min(true, false) / number
    return ("true", true / number) if true > false else ("false", false / number)


def _of(findings: Iterable[Finding], opinion: str) -> list[Finding]:
    """The findings of one opinion, the surest first."""
    return sorted((each for each in findings if each.verdict == opinion), key=lambda each: -each.confidence)


def _explanation(surest: Sequence[Finding]) -> str:
    """The words of the surest model; of each side, when there are two."""
    if not surest:
        return "No model could tell."
    if len(surest) == 1:
        return surest[0].explanation
    return " ".join(f"{each.checker} says {each.verdict}: {each.explanation}" for each in surest)


def _links(findings: Iterable[Finding]) -> list[Link]:
    """Each address once."""
    return list({link.url: link for finding in findings for link in finding.links}.values())
