"""`goalport skills`: skills are checked, listed and trusted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from goalport.base.errors import BadInput, DocumentError
from goalport.base.words import counted
from goalport.cli.options import Unasked, WorkspaceFolder, workspace_root
from goalport.cli.terminal import Format, Record, confirmed, say, show, show_json, show_lines
from goalport.cli.workspace import loop_of, open_with_warnings
from goalport.knowledge.documents import Folder
from goalport.knowledge.skills import Skill, Skills, SkillTrust, check_skills
from goalport.knowledge.skills.skill import SKILL_FILE, TRUST_FILE, fingerprint, scanned
from goalport.knowledge.skills.skills import PROJECT_FOLDERS, skills_in
from goalport.workspace.settings import load_settings

FINE, WRONG = 0, 1


def check(
    *folders: Path,
    files: Annotated[bool, Parameter(negative="--no-files")] = True,
    format: Format = "text",  # noqa: A002 - the option's name
) -> int:
    """Say what in skills is not as the specification wants it.

    Parameters
    ----------
    folders
        Folders of skills, or folders with skills in their folders.
    files
        Look for the files that the instructions mention. That is the default.

    Examples:
        goalport skills check skills
    """
    if not folders:
        raise BadInput("Say which skills to check, such as `goalport skills check skills`.")
    problems = [each for folder in folders for each in check_skills(folder, files=files)]
    if format == "json":
        show_json([{"path": str(each.path), "line": each.line, "message": each.message} for each in problems])
    else:
        show_lines(map(str, problems))
        say(f"{counted(len(problems), 'problem')}." if problems else "Nothing is wrong.")
    return WRONG if problems else FINE


def list_skills(
    *,
    format: Format = "text",  # noqa: A002 - the option's name
    workspace: WorkspaceFolder = Path(),
) -> None:
    """List the skills of the references of the workspace, and those that the project brings; GitHub's are fetched."""
    loaded = open_with_warnings(workspace)
    records: list[Record] = []
    with loop_of(loaded) as runner:
        for name, reference in loaded.platform.references.items():
            if isinstance(reference, Skills):
                found = runner.run(reference.all())
                records += [_record(each, name, "ready") for each in found if not each.fingerprint]
    trust = SkillTrust(loaded.settings.data_dir / TRUST_FILE)
    for place in (loaded.workspace.root / parent for parent in PROJECT_FOLDERS):
        for each in skills_in(place) if place.is_dir() else ():  # whether a reference names them or not
            records.append(_record(each, "", "trusted" if trust.trusted(each.folder) else "not trusted"))
    show(records, format, none="There are no skills. Name some in references.yml, or put them in .agents/skills.")


def _record(skill: Skill, reference: str, state: str) -> Record:
    return {
        "skill": skill.name,
        "description": skill.description,
        "state": state,
        "reference": reference,
        "folder": str(skill.folder),
    }


def trust(*folders: Path, yes: Unasked = False, workspace: WorkspaceFolder = Path()) -> int:
    """Trust skills that a project brings, as they are now.

    It shows what is trusted, and asks. A skill that changes later has to be trusted again.

    Parameters
    ----------
    folders
        Folders of skills, or folders with skills in their folders.

    Examples:
        goalport skills trust .agents/skills/release
    """
    if not folders:
        raise BadInput("Say which skill to trust; `goalport skills list` lists those of the project.")
    settings = load_settings(workspace_root(workspace))
    found = [each for folder in folders for each in _skills_at(folder)]
    seen = [fingerprint(each.folder) for each in found]
    for each in found:
        show_lines(_shown(each))
    whose = f"{counted(len(found), 'skill')} for agents of {settings.workspace}"
    unattended = f"Nobody is there to be asked; add --yes to trust {whose}."
    if not yes and not confirmed(f"Trust {whose}?", unattended):
        say("Nothing is trusted.")
        return WRONG
    record = SkillTrust(settings.data_dir / TRUST_FILE)
    for each, shown in zip(found, seen, strict=True):
        record.trust(each.folder, seen=shown)
        say(f"Trusted {each.name!r} as it is now.")
    return FINE


def _skills_at(folder: Path) -> list[Skill]:
    """The skill in a folder, or those in its folders. Raises `DocumentError` where there is none."""
    if (folder / SKILL_FILE).is_file():
        return [scanned(folder)[0]]
    found = [*skills_in(folder)]
    if not found:
        raise DocumentError(f"Expected a {SKILL_FILE} in {folder} or in a folder in there, but there is none.")
    return found


def _shown(skill: Skill) -> Iterator[str]:
    """What a person should know before a skill is trusted."""
    files = sorted(Folder(skill.folder, hidden=True).files())
    scripts = [each for each in files if each.startswith("scripts/")]
    yield f"{skill.name}: {skill.description}"
    yield f"  folder: {skill.folder.resolve()}"
    yield f"  files: {', '.join(files)}"
    yield f"  scripts: {', '.join(scripts) or 'none'}"
    yield ""
