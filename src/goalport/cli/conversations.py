"""`goalport conversations`: the stored conversations with chatbots are listed, searched, read, renamed and deleted.

They are those of all callers: who may read the store may see everything in it. No chatbot runs. Below the program.
"""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from goalport.base.errors import BadInput
from goalport.cli.chats import READER, conversation_line, transcript
from goalport.cli.options import AsJson, OutputFile, Unasked, WorkspaceFolder, workspace_root
from goalport.cli.sources import run_here
from goalport.cli.stored import driven, has_store, opened_store, stored_settings
from goalport.cli.terminal import Record, confirmed, say, show, show_json, show_lines, show_markdown
from goalport.cli.workspace import kept_in_memory
from goalport.runtime.chat import Conversations
from goalport.workspace.settings import load_settings

Chatbot = Annotated[str, Parameter(help="Only those with this chatbot.")]
Limit = Annotated[int, Parameter(help="How many at most. Default: 50.")]
After = Annotated[str, Parameter(help="Go on below this conversation.")]


def list_conversations(
    *,
    chatbot: Chatbot = "",
    limit: Limit = 50,
    after: After = "",
    structured: AsJson = False,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """List conversations, the one that was continued last first.

    Examples:
        goalport conversations list --chatbot Support
    """
    _show_page(workspace, "", chatbot, limit, after, structured=structured)


def search(
    words: Annotated[tuple[str, ...], Parameter("WORDS")],
    /,
    *,
    chatbot: Chatbot = "",
    limit: Limit = 50,
    after: After = "",
    structured: AsJson = False,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """List the conversations in whose title or messages these words are, in capitals or not.

    Parameters
    ----------
    words
        All of them have to occur.

    Examples:
        goalport conversations search refund damaged
    """
    if not any(each.strip() for each in words):
        raise BadInput("Say what to search for: goalport conversations search refund damaged")
    _show_page(workspace, " ".join(words), chatbot, limit, after, structured=structured)


def show_conversation(
    conversation_id: str, /, *, structured: AsJson = False, workspace: WorkspaceFolder = Path()
) -> None:
    """Show what was said in a conversation; as JSON also what was said in its other branches.

    Examples:
        goalport conversations show solid-tern-ba45d2e65dad
    """
    exported = run_here(_exported(workspace, conversation_id))
    if structured:
        show_json(exported)
    else:
        show_markdown(transcript(exported))


def rename(conversation_id: str, title: str, /, *, workspace: WorkspaceFolder = Path()) -> None:
    """Give a conversation a title.

    Parameters
    ----------
    title
        A few words that say what it is about.

    Examples:
        goalport conversations rename solid-tern-ba45d2e65dad "A damaged parcel"
    """
    run_here(_renamed(workspace, conversation_id, title))
    say(f"Conversation {conversation_id} is called: {title}")


def export(
    conversation_id: str,
    /,
    *,
    output: OutputFile = None,
    structured: AsJson = False,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """Write a conversation as Markdown; with --json, or into a file whose name ends so, as JSON with all branches.

    Examples:
        goalport conversations export solid-tern-ba45d2e65dad --output talk.md
    """
    exported = run_here(_exported(workspace, conversation_id))
    as_json = structured or (output is not None and output.suffix == ".json")
    text = f"{json.dumps(exported, indent=1, ensure_ascii=False)}\n" if as_json else transcript(exported)
    if output is None:
        show_lines([text.removesuffix("\n")])
    else:
        output.write_text(text, encoding="utf-8")


def delete(
    ids: Annotated[tuple[str, ...], Parameter("ID")],
    /,
    *,
    yes: Unasked = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Delete conversations with all their messages, for good. If there is no such conversation, none is deleted.

    Examples:
        goalport conversations delete solid-tern-ba45d2e65dad
    """
    if not ids:
        raise BadInput("Say which: goalport conversations delete ID")
    named = run_here(_titles(workspace, ids))
    question = f"Delete {', '.join(named)} with all messages, for good?"
    if not yes and not confirmed(question, "Nobody is here to confirm it. Add --yes to delete without asking."):
        say("Nothing was deleted.")
        return 1
    run_here(_deleted(workspace, ids))
    say(f"Deleted: {', '.join(named)}.")
    return 0


def _show_page(folder: Path, search: str, chatbot: str, limit: int, after: str, *, structured: bool) -> None:
    if limit < 1:
        raise BadInput(f"Expected --limit to be 1 or more, but got {limit}.")
    found = run_here(_page(folder, search, chatbot, limit + 1, after))
    none = "No conversation is stored." if not search else "No conversation has these words."
    show(found[:limit], "json" if structured else "text", none=none)
    if len(found) > limit:
        say(f"There are more: --after {found[limit - 1]['conversation']} goes on below the last one.")


@asynccontextmanager
async def _stored(folder: Path) -> AsyncGenerator[Conversations]:
    """The conversations of a workspace: in its store, or in the memory of a shell."""
    kept = kept_in_memory(load_settings(workspace_root(folder)))
    if kept is not None:
        yield kept.platform.conversations
        return
    async with opened_store(stored_settings(folder)) as store:
        yield Conversations(store.conversations, _keep_process)


async def _keep_process(process_id: str, reason: str) -> None:
    """Nothing: conversations are deleted where there is a platform, which ends their processes."""


async def _page(folder: Path, search: str, chatbot: str, limit: int, after: str) -> Sequence[Record]:
    settings = load_settings(workspace_root(folder))
    if settings.store != "memory" and not has_store(settings):
        return []
    async with _stored(folder) as stored:
        found = await stored.list(READER, chatbot=chatbot, search=search, after=after, limit=limit)
    return [conversation_line(each) for each in found]


async def _exported(folder: Path, conversation_id: str) -> dict[str, Any]:
    async with _stored(folder) as stored:
        return await stored.export(conversation_id, READER)


async def _renamed(folder: Path, conversation_id: str, title: str) -> None:
    async with _stored(folder) as stored:
        await stored.rename(conversation_id, READER, title)


async def _titles(folder: Path, ids: Sequence[str]) -> list[str]:
    """What is said of each conversation before it is deleted. Raises `UnknownName`."""
    async with _stored(folder) as stored:
        found = [await stored.get(each, READER) for each in ids]
    return [f"{each.id} ({each.title})" if each.title else each.id for each in found]


async def _deleted(folder: Path, ids: Sequence[str]) -> None:
    """Delete conversations, and what runs behind them, which takes a platform."""
    kept = kept_in_memory(load_settings(workspace_root(folder)))
    async with AsyncExitStack() as stack:
        loaded = kept or await stack.enter_async_context(driven(stored_settings(folder), drive=False))
        for each in ids:
            await loaded.platform.conversations.delete(each, READER)
