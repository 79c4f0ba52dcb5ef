"""The program of the child process in which a library makes Markdown of PDF, office and e-book files.

`conversion.py` starts it as a script with the limits as its argument, and speaks with it over pipes: a line of JSON,
then as many bytes as it says. Nothing of goalport is imported here, and nothing but the last answer is kept.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, cast

_LONGEST_ERROR = 500
_DESCRIPTIONS = {
    "title": ("title", "subject"),
    "author": ("authors", "author", "creator"),
    "subject": ("subject",),
    "language": ("language",),
    "created": ("created_at", "created"),
}
"""What is told of a file beyond its text, and the names that it has in the library's metadata."""
_SAYS_NOTHING = frozenset({"(anonymous)", "(unspecified)", "anonymous", "unspecified", "untitled"})
"""What programs write where they were told no title or author."""


def main() -> None:
    limits = json.loads(sys.argv[1])
    questions = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    # What libraries print belongs to no answer.
    os.dup2(2, 1)
    limit_time = _limit_resources(limits)
    while line := questions.readline():
        question = json.loads(line)
        data = questions.read(question["size"])
        if len(data) < question["size"]:
            return
        limit_time()
        answer, text = _converted(data, question["media_type"], limits["text"])
        written = text.encode("utf-8", "replace")
        _send(answers, {**answer, "size": len(written)}, written)


def _send(answers: BinaryIO, answer: Mapping[str, object], text: bytes) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.write(text)
    answers.flush()


def _limit_resources(limits: Mapping[str, int]) -> Callable[[], None]:
    """Limits memory and files for good; what is returned limits the processor time of the next file.

    It ends this process when nobody is left to do so.
    """
    if sys.platform == "win32":
        return lambda: None
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits["memory"], limits["memory"]))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (limits["memory"], limits["memory"]))

    def limit_time() -> None:
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        # Two threads may work, and the parent counts by the clock.
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used) + 2 * limits["seconds"], resource.RLIM_INFINITY))

    return limit_time


def _converted(data: bytes, media_type: str, most: int) -> tuple[dict[str, object], str]:
    import kreuzberg

    config = kreuzberg.ExtractionConfig(
        output_format="markdown",
        use_cache=False,
        concurrency=kreuzberg.ConcurrencyConfig(max_threads=2),
        # By default what stands in the margins of a page is left out, even if it is the beginning of a letter.
        pdf_options=kreuzberg.PdfConfig(top_margin_fraction=0.0, bottom_margin_fraction=0.0),
    )
    try:
        result = kreuzberg.extract_bytes_sync(data, media_type, config)
    except (kreuzberg.KreuzbergError, RuntimeError, ValueError, OSError) as error:
        return {"error": str(error)[:_LONGEST_ERROR]}, ""
    text = result.content
    if len(text) > most:
        return {"error": f"its text has {len(text):,} characters, and at most {most:,} are read"}, ""
    return {"metadata": _described(cast("Mapping[str, Any]", result.metadata))}, text


def _described(metadata: Mapping[str, Any]) -> dict[str, str]:
    core = metadata.get("core_properties")
    known = {**(cast("Mapping[str, Any]", core) if isinstance(core, dict) else {}), **metadata}
    found: dict[str, str] = {}
    for name, places in _DESCRIPTIONS.items():
        value = next((known[place] for place in places if known.get(place)), None)
        if isinstance(value, list):
            value = ", ".join(each for each in cast("list[object]", value) if isinstance(each, str))
        if isinstance(value, str) and value.strip() and value.strip().lower() not in _SAYS_NOTHING:
            found[name] = value[:_LONGEST_ERROR]
    return found


if __name__ == "__main__":
    main()
