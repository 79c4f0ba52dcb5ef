"""`goalport references`: the references of a workspace, and what a model is told of one.

Below the program; `references` and `platform` are below it.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from goalport.base.errors import UnknownName
from goalport.cli.options import WorkspaceFolder
from goalport.cli.terminal import Format, Record, show, show_lines
from goalport.cli.workspace import loop_of, open_with_warnings
from goalport.knowledge.references import LlmReference, NamedReferences, Refreshing, refreshed
from goalport.knowledge.references.reference import described
from goalport.models.prompts import contribution_of


def references(
    *,
    read: Annotated[
        str | None, Parameter(help="Show what a model is told of the one with this name.", show_default=False)
    ] = None,
    format: Format = "text",  # noqa: A002 - the option's name
    workspace: WorkspaceFolder = Path(),
) -> None:
    """List what prompts can name: the references and personas of references.yml."""
    loaded = open_with_warnings(workspace)
    found = loaded.platform.references
    if read is None:
        none = f"There are none. Write some in {loaded.workspace.root / 'references.yml'}."
        show([_record(found, each) for each in (*found, *found.contributors)], format, none=none)
    elif read in found.contributors:
        show_lines(contribution_of(found.contributor(read)).splitlines())
    elif read in found:
        with loop_of(loaded) as runner:
            show_lines(runner.run(_told(found.reference(read))).splitlines())
    else:
        raise UnknownName("reference", read, [*found, *found.contributors])


async def _told(reference: LlmReference) -> str:
    await refreshed(reference)
    tools = [f"- {each.name}: {each.description}" for each in reference.tools()]
    return "\n".join([described(reference), *(["", "Tools:", *tools] if tools else [])])


def _record(found: NamedReferences, name: str) -> Record:
    reference = found.get(name)
    return {
        "name": name,
        "type": found.types[name],
        "description": "" if reference is None else reference.description,
        "state": "refreshed before each request" if isinstance(reference, Refreshing) else "ready",
        "published": any(each is reference for each in found.published),
    }
