"""`goalport answer`, `resume` and `kill`: change processes in the store of a workspace, or at a running server.

What a server runs is changed by that server, which is asked through the store or over REST. A process that can go on
after that is left to a server, or with `--wait` to the end of the command. `processes` has the commands that only look.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from goalport.base.errors import BadInput
from goalport.cli.options import StructuredResult, WorkspaceFolder, given_text
from goalport.cli.prompts import Interrupted, Unanswered
from goalport.cli.sources import Asked, Server, Source, run_here, source_of
from goalport.cli.terminal import say

FAILED, INTERRUPTED = 1, 130
_REASON = "It was ended with `goalport kill`."
Wait = Annotated[
    bool,
    Parameter(
        negative="",
        help="Wait until it ends or asks again: it goes on here, or at the server that --server names. Without it, a"
        " server goes on with it.",
        show_default=False,
    ),
]


def answer(
    process_id: str,
    given: Annotated[str | None, Parameter(name="ANSWER", help="JSON, or @FILE. Default: asked here.")] = None,
    /,
    *,
    question: Annotated[str | None, Parameter(help="The question, if several are open.", show_default=False)] = None,
    decline: Annotated[str, Parameter(help="Say no, for this reason.", show_default=False)] = "",
    wait: Wait = False,
    structured: StructuredResult = False,
    server: Server = None,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Answer a question of a process; a process that ANSWER does not fit keeps its question.

    Exit codes: 0 answered, with --wait: reached; 1 not reached, not answered, or answered before; 2 the answer does not
    fit, or there is no such process; 130 stopped with Ctrl-C, the question stays open.
    """
    if decline and given is not None:
        raise BadInput("An answer and --decline were given. Leave one of them out.")
    source = source_of(server, workspace)

    async def settled() -> int:
        async with source.asked(process_id, question, wait=wait) as asked:
            if given is None and not decline:
                say(await _asked_here(asked, source, process_id))
            else:
                say(await asked.settle(None if decline else read_answer(given or ""), decline))
            return await asked.end(structured=structured) if wait else 0

    try:
        return run_here(settled())
    except Interrupted:
        return INTERRUPTED
    except Unanswered:
        return FAILED


def read_answer(given: str) -> object:
    """An answer that was given as an argument: JSON, a text, or after `@` a file with either."""
    text = given_text(given)
    try:
        return json.loads(text)
    except ValueError:
        return text


async def _asked_here(asked: Asked, source: Source, process_id: str) -> str:
    """Ask the question on the terminal, and answer it. Raises `BadInput` if there is no terminal, and `Unanswered`."""
    question = asked.question
    if not sys.stdin.isatty():
        schema = json.dumps(question["schema"], ensure_ascii=False)
        raise BadInput(
            f"The question is: {question['message']}\nGive the answer after the id, as JSON of this schema: {schema}"
        )
    # Imported here, because it loads pydantic, and a command that only kills needs none of it.
    from goalport.cli.questions import answer_of

    async def send(answer: object) -> str:
        return await asked.settle(answer, "")

    try:
        return await answer_of(question, send, asked.status)
    except Unanswered:
        say("The question stays open. To answer it later:")
        say(f"  goalport answer {process_id} --question {question['id']}{source.options}")
        raise


def resume(
    process_id: str,
    /,
    *,
    retry: Annotated[
        bool, Parameter(negative="", help="The interrupted action begins again.", show_default=False)
    ] = False,
    skip: Annotated[
        bool, Parameter(negative="", help="It is left out, and another way is looked for.", show_default=False)
    ] = False,
    wait: Wait = False,
    structured: StructuredResult = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Go on with a process that is stuck because the program ended in an action that may not be repeated."""
    if retry == skip:
        raise BadInput(
            "Look first at what the interrupted action has done (`goalport show` names it). Then say either --retry,"
            " and it begins again, or --skip, and the process goes on without it."
        )
    from goalport.cli.stored import driven, shown_end, stored_settings, told

    async def gone_on() -> int:
        async with driven(stored_settings(workspace), drive=wait) as loaded:
            process = await loaded.platform.go_on(process_id, retry=retry)
            if wait:
                return await shown_end(process, structured=structured)
            say(told(process))
            return 0

    return asyncio.run(gone_on())


def kill(
    process_id: str,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why; its caller is told.", show_default=False)] = _REASON,
    server: Server = None,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """End a process with its sub-processes, whoever runs it, also one that today's code cannot read."""
    say(run_here(source_of(server, workspace).kill(process_id, reason)))
