"""`goalport answer`, `resume` and `kill`: change stored processes, beside a server that runs or while none does.

What a server runs is changed by that server, which is asked through the store. A process that can go on after that is
left to a server, or with `--wait` goes on here. `processes` has the commands that only look.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from goalport.cli.options import StructuredResult, WorkspaceFolder, given_text
from goalport.cli.run import StepPrinter, Unanswered, answer_to
from goalport.cli.stored import stored_settings
from goalport.cli.terminal import say, show_result
from goalport.cli.workspace import LoadedWorkspace, open_with_settings
from goalport.errors import BadInput, Unreadable
from goalport.process import (
    AgentProcess,
    Completed,
    Outcome,
    ProcessStatus,
    Question,
    Waiting,
    find_question,
)
from goalport.publish.answers import reason_of
from goalport.publish.forms import form_of
from goalport.publish.output import OutputFormat

FAILED = 1
_REASON = "It was ended with `goalport kill`."
Wait = Annotated[
    bool,
    Parameter(
        negative="",
        help="Go on with it here, and wait until it ends or asks again. Without it, a server goes on with it.",
        show_default=False,
    ),
]
Change = Callable[[LoadedWorkspace], Awaitable[AgentProcess]]


def answer(
    process_id: str,
    given: Annotated[str | None, Parameter(name="ANSWER", help="JSON, or @FILE. Default: asked here.")] = None,
    /,
    *,
    question: Annotated[str | None, Parameter(help="The question, if several are open.", show_default=False)] = None,
    decline: Annotated[str, Parameter(help="Say no, for this reason.", show_default=False)] = "",
    wait: Wait = False,
    structured: StructuredResult = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Answer a question of a stored process; a process that ANSWER does not fit keeps its question.

    Exit codes: 0 answered, with --wait: reached; 1 not reached; 2 the answer does not fit.
    """
    if decline and given is not None:
        raise BadInput("An answer and --decline were given. Leave one of them out.")
    loaded = _opened(workspace, drive=wait)

    async def settle(loaded: LoadedWorkspace) -> AgentProcess:
        platform = loaded.platform
        asked = find_question(await platform.process(process_id), question)[1]
        response = None if decline else await _response(asked, given)
        return await platform.answer(process_id, asked.id, response, declined=decline)

    return asyncio.run(_changed(loaded, settle, wait=wait, structured=structured))


async def _response(asked: Question, given: str | None) -> object:
    """The answer as an object. Raises `BadInput` for one that does not fit, and if there is none."""
    form = form_of(asked)
    if given is not None:
        text = given_text(given)
        try:
            return form.read(json.loads(text))
        except ValueError:
            return form.read(text)
    if not sys.stdin.isatty():
        schema = json.dumps(form.schema, ensure_ascii=False)
        raise BadInput(
            f"The question is: {asked.message}\nGive the answer after the id, as JSON of this schema: {schema}"
        )
    try:
        return await asyncio.to_thread(answer_to, asked)
    except Unanswered:
        raise BadInput("No answer was given; the question stays open.") from None


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
    loaded = _opened(workspace, drive=wait)

    async def go_on(loaded: LoadedWorkspace) -> AgentProcess:
        return await loaded.platform.go_on(process_id, retry=retry)

    return asyncio.run(_changed(loaded, go_on, wait=wait, structured=structured))


def kill(
    process_id: str,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why; its caller is told.", show_default=False)] = _REASON,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """End a stored process with its sub-processes, whoever runs it, also one that today's code cannot read."""
    loaded = _opened(workspace, drive=False)
    asyncio.run(_kill(loaded, process_id, reason))


async def _kill(loaded: LoadedWorkspace, process_id: str, reason: str) -> None:
    processes = loaded.platform.processes
    try:
        process = await processes.find(process_id)
        if process.over:
            raise BadInput(f"Process {process_id} has ended before: {process.status}.")
        process.kill(reason)
        await process.rest()
        say(f"Process {process_id} is {process.status}.")
    except Unreadable as error:
        await processes.kill_unreadable(process_id, reason)
        say(f"Process {process_id} is killed with its family. Only its history is kept: {error}")
    finally:
        await loaded.platform.aclose()


def _opened(folder: Path, *, drive: bool) -> LoadedWorkspace:
    settings = stored_settings(folder)
    loaded = open_with_settings(settings.workspace, settings)
    for problem in loaded.problems:
        say(f"warning: {problem}")
    loaded.platform.processes.stand_aside(drive=drive)
    return loaded


async def _changed(loaded: LoadedWorkspace, change: Change, *, wait: bool, structured: bool) -> int:
    """Change a process, and wait for what follows if that is wanted; the exit code."""
    platform = loaded.platform
    try:
        if wait:
            await platform.upstream.open()
        process = await change(loaded)
        if not wait:
            say(_left(process))
            return 0
        process.subscribe(StepPrinter())
        return _shown(process, await process.wait(), structured=structured)
    finally:
        await platform.aclose()


def _left(process: AgentProcess) -> str:
    if process.status.ended or process.status is ProcessStatus.WAITING:
        return f"Done. Process {process.id} is {process.status}."
    return f"Done. A server that runs goes on with process {process.id} at once; otherwise the next one does."


def _shown(process: AgentProcess, outcome: Outcome, *, structured: bool) -> int:
    """Print how a process ended, or what it asks; the exit code."""
    if isinstance(outcome, Completed):
        goal = process.goal
        wire, _ = OutputFormat.of(None if goal is None else goal.output).wire(outcome.value)
        show_result(wire, structured=structured)
        return 0
    say(f"{reason_of(outcome, process.goal.name if process.goal is not None else process.agent.name)}")
    if isinstance(outcome, Waiting):
        say(f"`goalport show {process.id}` shows how to answer.")
        return 0
    return FAILED
