"""The program of the child process in which a library converts PDF, office and e-book files to Markdown.

`reader.py` starts it as a script for each file, with the limits as its argument. It reads `document` in its folder
and writes `answer.json` there. Nothing of goalport is imported here.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

_LONGEST_ERROR = 500
_DESCRIPTIONS = {
    "title": ("title", "subject"),
    "author": ("authors", "author", "creator"),
    "subject": ("subject",),
    "language": ("language",),
    "created": ("created_at", "created"),
}
"""The metadata that the answer has, each with its possible names in the metadata of the library."""
_SAYS_NOTHING = frozenset({"(anonymous)", "(unspecified)", "anonymous", "unspecified", "untitled"})
"""What programs write into files that have no title or author."""


def main() -> None:
    limits = json.loads(sys.argv[1])
    if sys.platform != "win32":
        # Limits for memory, files and CPU time. The last one ends this process if the parent is gone; it is twice the
        # parent's limit of elapsed time, since two threads may work.
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (2 * limits["seconds"], resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits["memory"], limits["memory"]))
        if sys.platform == "linux":
            resource.setrlimit(resource.RLIMIT_AS, (limits["memory"], limits["memory"]))
    answer = _answer(limits["media_type"], limits["text"])
    Path("answer.json").write_text(json.dumps(answer, ensure_ascii=False), "utf-8", "replace")


def _answer(media_type: str, most: int) -> dict[str, object]:
    import kreuzberg

    config = kreuzberg.ExtractionConfig(
        output_format="markdown",
        use_cache=False,
        concurrency=kreuzberg.ConcurrencyConfig(max_threads=2),
        # By default the library drops text in the margins of a page, even if it is the beginning of a letter.
        pdf_options=kreuzberg.PdfConfig(top_margin_fraction=0.0, bottom_margin_fraction=0.0),
    )
    try:
        result = kreuzberg.extract_bytes_sync(Path("document").read_bytes(), media_type, config)
    except (kreuzberg.KreuzbergError, RuntimeError, ValueError, OSError) as error:
        return {"error": str(error)[:_LONGEST_ERROR]}
    if len(result.content) > most:
        return {"error": f"its text has {len(result.content):,} characters, and at most {most:,} are read"}
    metadata = cast("Mapping[str, Any]", result.metadata)
    core = metadata.get("core_properties")
    known = {**(cast("Mapping[str, Any]", core) if isinstance(core, dict) else {}), **metadata}
    found: dict[str, str] = {}
    for name, places in _DESCRIPTIONS.items():
        value = next((known[place] for place in places if known.get(place)), None)
        if isinstance(value, list):
            value = ", ".join(each for each in cast("list[object]", value) if isinstance(each, str))
        if isinstance(value, str) and value.strip() and value.strip().lower() not in _SAYS_NOTHING:
            found[name] = value[:_LONGEST_ERROR]
    return {"text": result.content, "metadata": found}


if __name__ == "__main__":
    main()
