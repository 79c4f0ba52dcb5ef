"""`goalport ps`, `show`, `answer`, `resume`, `kill`, …: the processes in a store, or at a running server.

A process that a server runs is changed by that server, on a request through the store or over REST. If a process can go
on after that, a server goes on with it or, with `--wait`, the command itself.
"""

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from goalport.base.errors import BadInput
from goalport.base.events import from_json
from goalport.base.observe import in_words
from goalport.base.words import one_line
from goalport.cli.options import FAILED, INTERRUPTED, AsJson, StructuredResult, WorkspaceFolder, given_text
from goalport.cli.process_sources import (
    SHELL_LOOP,
    JsonObject,
    OpenQuestion,
    Page,
    ProcessSource,
    Server,
    run_here,
    source_of,
)
from goalport.cli.prompts import Interrupted, Unanswered
from goalport.cli.terminal import local_time, say, show as show_records, show_json, show_lines

Status = Literal[
    "running", "waiting", "resting", "stuck", "paused", "not_started", "completed", "failed", "terminated", "killed"
]
Wait = Annotated[
    bool,
    Parameter(
        help="Wait until it ends or asks again: it goes on here, or at the server that --server names. Without it, a"
        " server goes on with it."
    ),
]
_OPEN = ("not_started", "running", "waiting", "paused", "resting", "stuck")


def ps(
    *,
    status: tuple[Status, ...] = (),
    all_: Annotated[bool, Parameter(("--all", "-a"))] = False,
    limit: int = 50,
    after: str = "",
    every_caller: bool = False,
    structured: AsJson = False,
    server: Server = None,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """List processes, the newest first: those that have not ended, or are stuck.

    Args:
        status: Only those with this status; repeat it for more.
        all_: Also those that have ended.
        limit: How many at most. Default: 50.
        after: Go on below this process.
        every_caller: With --server: those of all callers. The key needs the admin scope.

    Examples:
        goalport ps
        goalport ps --all --limit 20
        goalport ps --status waiting --json
        goalport ps --server http://127.0.0.1:8080
    """
    if limit < 1:
        raise BadInput(f"Expected --limit to be 1 or more, but got {limit}.")
    chosen = tuple(status) or (() if all_ else _OPEN)

    async def found() -> Page:
        source = await source_of(server, workspace, of_all=every_caller)
        if SHELL_LOOP.get() is None or server is not None or workspace != Path():
            return await source.page(chosen, limit, after)
        from goalport.cli.stored_processes import page_with_shell

        return await page_with_shell(source, chosen, limit, after)

    page = run_here(found())
    show_records(page.lines, "json" if structured else "text", none=page.none)
    if page.more:
        say(f"There are more: --after {page.lines[-1]['process']} goes on below the last one.")


def show(
    process_id: str,
    /,
    *,
    structured: AsJson = False,
    events: bool = False,
    server: Server = None,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """Show a process: its history with times, costs and attempts, its plan, its questions, and who runs it.

    Args:
        events: Also all that happened in it, step by step; of a server as it happens, until the process ends.

    Examples:
        goalport show 0192f0c3
        goalport show 0192f0c3 --json
        goalport show 0192f0c3 --events --server https://agents.example.com
    """

    async def shown() -> None:
        source = await source_of(server, workspace, process_id)
        view = await source.view(process_id)
        if structured and events and not source.live:
            view["events"] = [each async for each in source.events(process_id)]
            show_json(view)
            return
        if structured:
            show_json(view, None if events else 2)
        else:
            show_lines([*page_of(view, source.options), *(["", "Events"] if events else [])])
        if events:
            async for each in source.events(process_id):
                if structured:
                    show_json(each, None)
                elif words := None if (event := from_json(each)) is None else in_words(event):
                    whose = "" if each["process_id"] == process_id else f"{each['process_id']}: "
                    show_lines([f"  {_local(each['at'])}  {whose}{one_line(words)}"])

    run_here(shown())


def answer(
    process_id: str,
    given: Annotated[str | None, Parameter("ANSWER")] = None,
    /,
    *,
    question: str | None = None,
    decline: str = "",
    wait: Wait = False,
    structured: StructuredResult = False,
    server: Server = None,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Answer a question of a process; a process that ANSWER does not fit keeps its question.

    Without an answer here the question stays open. With --wait, the exit code tells whether the goal was reached.

    Args:
        given: JSON, or @FILE. Default: asked here.
        question: The question, if several are open.
        decline: Say no, for this reason.

    Examples:
        goalport answer 0192f0c3
        goalport answer 0192f0c3 true
        goalport answer 0192f0c3 '{"budget": 100}' --wait
        goalport answer 0192f0c3 --decline 'Too expensive'
    """
    if decline and given is not None:
        raise BadInput("An answer and --decline were given. Leave one of them out.")

    async def answered() -> int:
        source = await source_of(server, workspace, process_id)
        async with source.open_question(process_id, question, wait=wait) as open_question:
            if given is None and not decline:
                say(await _ask_here(open_question, source, process_id))
            else:
                say(await open_question.answer_or_decline(None if decline else read_answer(given or ""), decline))
            return await open_question.wait_and_print(structured) if wait else 0

    try:
        return run_here(answered())
    except Interrupted:
        return INTERRUPTED
    except Unanswered:
        return FAILED


def read_answer(given: str) -> object:
    """The answer in an argument: JSON or a text, or `@` and the path of a file with either."""
    text = given_text(given)
    try:
        return json.loads(text)
    except ValueError:
        return text


async def _ask_here(open_question: OpenQuestion, source: ProcessSource, process_id: str) -> str:
    """Ask the question on the terminal, and answer it. Raises `BadInput` if there is no terminal, and `Unanswered`."""
    question = open_question.question
    if not sys.stdin.isatty():
        schema = json.dumps(question["schema"], ensure_ascii=False)
        raise BadInput(
            f"The question is: {question['message']}\nGive the answer after the id, as JSON of this schema: {schema}"
        )
    # Imported here, because it loads pydantic, which commands such as `kill` do not need.
    from goalport.cli.questions import ask_question

    try:
        return await ask_question(
            question, lambda answer: open_question.answer_or_decline(answer, ""), open_question.status
        )
    except Unanswered:
        say("The question stays open. To answer it later:")
        say(f"  goalport answer {process_id} --question {question['id']}{source.options}")
        raise


def resume(
    process_id: str,
    /,
    *,
    retry: bool = False,
    skip: bool = False,
    wait: Wait = False,
    structured: StructuredResult = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Go on with a process that is stuck because the program ended in an action that may not be repeated.

    Args:
        retry: The interrupted action begins again.
        skip: It is left out, and another way is looked for.

    Examples:
        goalport resume 0192f0c3 --retry
        goalport resume 0192f0c3 --skip --wait
    """
    if retry == skip:
        raise BadInput(
            "Look first at what the interrupted action has done (`goalport show` names it). Then say either --retry,"
            " and it begins again, or --skip, and the process goes on without it."
        )
    from goalport.cli.stored_processes import open_with_store, state_after_change, stored_settings, wait_and_print

    async def gone_on() -> int:
        async with open_with_store(stored_settings(workspace), drive=wait) as loaded:
            process = await loaded.platform.go_on(process_id, retry=retry)
            if wait:
                return await wait_and_print(process, structured)
            say(state_after_change(process))
            return 0

    return run_here(gone_on())


def kill(
    process_id: str,
    /,
    *,
    reason: str = "It was ended with `goalport kill`.",
    server: Server = None,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """End a process with its sub-processes, whoever runs it, also one that today's code cannot read.

    Args:
        reason: Why; its caller is told.

    Examples:
        goalport kill 0192f0c3
        goalport kill 0192f0c3 --reason 'Started by mistake'
    """

    async def killed() -> str:
        return await (await source_of(server, workspace, process_id)).kill(process_id, reason)

    say(run_here(killed()))


def page_of(view: JsonObject, options: str) -> Iterator[str]:
    """The lines that show a process; `options` are the command-line options that name its source."""
    yield f"{view['id']}: {view['agent']}, {view['status']}"
    ended, cost, spent = "ended" if view["final"] else "rests since", view["cost"], ""
    if cost["modelCalls"]:
        tokens = f"{cost['inputTokens']:,} and {cost['outputTokens']:,} tokens"
        spent = f"{cost['usd']:.4f} USD, {tokens} in and out, {cost['modelCalls']} requests of models"
    facts = {
        "created": _local(view["createdAt"]),
        ended: view["finishedAt"] and _local(view["finishedAt"]),
        "runs in": _program_of(view) if "runner" in view else "",
        "caller": view.get("caller"),
        "part of": view.get("startedBy"),
        "goal": view["goal"],
        "plan": " → ".join(view["plan"]),
        "reason": view["reason"],
        "cost": spent,
    }
    yield from (f"  {name:<12}{value}" for name, value in facts.items() if value)
    if view.get("unreadable"):
        yield from ["", "Today's code cannot read it, so it does not go on:", f"  {view['unreadable']}"]
        yield f"  `goalport kill {view['id']}{options}` ends it all the same."
    history, questions = list[str](), list[str]()
    for each in view["history"]:
        attempts = "" if each["attempts"] == 1 else f", {each['attempts']} attempts"
        used = f", {each['usd']:.4f} USD, {each['tokens']:,} tokens" if each["tokens"] else ""
        told = f"{each['status']} in {each['seconds']:.2f} s{attempts}{used}"
        history.append(f"{_local(each['startedAt'])}  {each['action']}: {told}")
        history += [f"    {one_line(why, 500)}" for why in (each["error"], *each.get("missingTools", ())) if why]
    for each in view["questions"]:
        questions.append(f"{each['id']}, asked {_local(each['askedAt'])}: {each['message']}")
        if "schema" in each:
            schema = json.dumps(each["schema"], ensure_ascii=False)
            questions.append(f"    the answer as JSON Schema: {schema}")
        questions.append(f"    goalport answer {view['id']} --question {each['id']}{options}")
    sections = {
        "History": history,
        "Questions": questions,
        "Sub-processes": [f"{each['id']}: {each['agent']}, {each['status']}" for each in view.get("subProcesses", ())],
        "Result": json.dumps(view["result"], indent=2, ensure_ascii=False).splitlines() if "result" in view else [],
    }
    for title, lines in sections.items():
        if lines:
            yield from ["", title, *(f"  {line}" for line in lines)]


def _program_of(view: JsonObject) -> str:
    match view["runner"]:
        case {"host": host, "pid": pid, "alive": alive}:
            dead = "" if alive else ", which does not answer any more; the next server goes on with it"
            return f"process {pid} on {host}{dead}"
        case _ if view["status"] in {"running", "not_started"}:
            return "no program; the next server goes on with it"
        case _:
            return "no program, since nothing of it is to run now"


def _local(moment: str) -> str:
    return local_time(datetime.fromisoformat(moment))
