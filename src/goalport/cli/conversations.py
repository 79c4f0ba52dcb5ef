"""`goalport conversations`: the conversations of all callers, in the store of a workspace or the memory of a shell."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from cyclopts import Parameter

from goalport.base.caller import OPERATOR
from goalport.base.errors import BadInput
from goalport.cli.options import AsJson, OutputFile, Unasked, WorkspaceFolder, workspace_root
from goalport.cli.process_sources import run_here
from goalport.cli.stored_processes import has_store, open_store, open_with_store, stored_settings
from goalport.cli.terminal import Record, confirmed, local_time, say, show, show_json, show_lines, show_markdown
from goalport.cli.workspace import shell_workspace_in_memory
from goalport.runtime.chat import Conversations
from goalport.store import ConversationRecord
from goalport.workspace.settings import load_settings

READER: Final = replace(OPERATOR, admin=True)
"""The caller as which commands read: an admin, who sees the conversations of all callers."""
T = TypeVar("T")
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

    Args:
        words: All of them have to occur.

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
    exported = _of_stored(workspace, lambda stored: stored.export(conversation_id, READER))
    if structured:
        show_json(exported)
    else:
        show_markdown(transcript(exported))


def rename(conversation_id: str, title: str, /, *, workspace: WorkspaceFolder = Path()) -> None:
    """Give a conversation a title.

    Args:
        title: A few words that say what it is about.

    Examples:
        goalport conversations rename solid-tern-ba45d2e65dad "A damaged parcel"
    """
    _of_stored(workspace, lambda stored: stored.rename(conversation_id, READER, title))
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
    exported = _of_stored(workspace, lambda stored: stored.export(conversation_id, READER))
    text = transcript(exported, as_json=structured or (output is not None and output.suffix == ".json"))
    if output is None:
        show_lines([text.removesuffix("\n")])
    else:
        output.write_text(text, encoding="utf-8")


def delete(
    ids: Annotated[tuple[str, ...], Parameter("ID")], /, *, yes: Unasked = False, workspace: WorkspaceFolder = Path()
) -> int:
    """Delete conversations with all their messages, for good. If there is no such conversation, none is deleted.

    Examples:
        goalport conversations delete solid-tern-ba45d2e65dad
    """
    if not ids:
        raise BadInput("Say which: goalport conversations delete ID")

    async def titles(stored: Conversations) -> list[str]:
        found = [await stored.get(each, READER) for each in ids]
        return [f"{each.id} ({each.title})" if each.title else each.id for each in found]

    named = _of_stored(workspace, titles)
    question = f"Delete {', '.join(named)} with all messages, for good?"
    if not yes and not confirmed(question, "Nobody is here to confirm it. Add --yes to delete without asking."):
        say("Nothing was deleted.")
        return 1

    async def delete_all(stored: Conversations) -> None:
        for each in ids:
            await stored.delete(each, READER)

    _of_stored(workspace, delete_all, ends_processes=True)
    say(f"Deleted: {', '.join(named)}.")
    return 0


def _show_page(folder: Path, search: str, chatbot: str, limit: int, after: str, *, structured: bool) -> None:
    if limit < 1:
        raise BadInput(f"Expected --limit to be 1 or more, but got {limit}.")
    settings = load_settings(workspace_root(folder))
    found: list[Record] = []
    if settings.store == "memory" or has_store(settings):
        records = _of_stored(
            folder, lambda stored: stored.list(READER, chatbot=chatbot, search=search, after=after, limit=limit + 1)
        )
        found = [*map(conversation_line, records)]
    none = "No conversation is stored." if not search else "No conversation has these words."
    show(found[:limit], "json" if structured else "text", none=none)
    if len(found) > limit:
        say(f"There are more: --after {found[limit - 1]['conversation']} goes on below the last one.")


def _of_stored(folder: Path, work: Callable[[Conversations], Awaitable[T]], *, ends_processes: bool = False) -> T:
    """Run `work` with the conversations in the store of a workspace or the memory of a shell, and return its result.

    With `ends_processes`, the work also ends the processes of conversations, for which a platform is opened.
    """

    async def keep_process(process_id: str, reason: str) -> None:
        """Never called: conversations are deleted only with a platform, which ends their processes."""

    async def worked() -> T:
        if (shell_workspace := shell_workspace_in_memory(folder)) is not None:
            return await work(shell_workspace.platform.conversations)
        settings = stored_settings(folder)
        if ends_processes:
            async with open_with_store(settings, drive=False) as loaded:
                return await work(loaded.platform.conversations)
        async with open_store(settings) as store:
            return await work(Conversations(store.conversations, keep_process))

    return run_here(worked())


def conversation_line(record: ConversationRecord) -> Record:
    """A conversation in a list."""
    return {
        "conversation": record.id,
        "title": record.title,
        "chatbot": record.chatbot,
        "continued": local_time(record.updated_at),
        "state": "finished" if record.finished else "open",
        "caller": record.caller.id,
    }


def transcript(exported: Mapping[str, Any], *, as_json: bool = False) -> str:
    """An export as JSON with all branches, or as Markdown with the current branch only."""
    if as_json:
        return f"{json.dumps(exported, indent=1, ensure_ascii=False)}\n"
    by_id = {each["id"]: each for each in exported["messages"]}
    branch: list[Mapping[str, Any]] = []
    place: str = exported["head"]
    while place:
        branch.append(by_id[place])
        place = by_id[place]["parent"]
    parts = [f"# {exported['title'] or 'Conversation ' + exported['id']}"]
    parts += [f"With {exported['chatbot']}, begun {exported['created_at']}, id {exported['id']}."]
    roles = {"user": "You", "assistant": exported["chatbot"], "system": "Instructions"}
    for each in reversed(branch):
        attached = [f"*An image ({image['media_type']})*" for image in each.get("images", ())]
        for asset in each["assets"]:
            attached += [f"[{asset['name']}]({asset['uri']})" if asset["uri"] else f"*{asset['name']}*"]
        # Summaries and results of tools are no part of what was said.
        if each["role"] not in {"summary", "tool"} and (each["content"] or attached):
            parts += [f"**{each['name'] or roles.get(each['role'], each['role'])}**, {each['at']}:"]
            parts += filter(None, [each["content"], *attached])
    return "\n\n".join(parts) + "\n"
