"""Trust in skills that came with a project: instructions of others, which somebody has to look at first.

A folder that was cloned may bring skills along, and they steer the model that reads them. They are withheld until
somebody trusts them, and again when they change. The file is read at each question, as another program may write it.
"""

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, NoReturn, cast

from goalport.base.errors import DocumentError, UnreadableDocument
from goalport.base.files import replace_file
from goalport.knowledge.documents import Folder, FolderLimits
from goalport.knowledge.skills.skill import Skill

TRUST_FILE: Final = "skill-trust.json"
"""Its name in the data folder."""
_LARGEST: Final = 50_000_000


def fingerprint(root: Path) -> str:
    """The hash of all files of a skill, hidden ones too.

    Raises `DocumentError` where one cannot be read, or there are too many to look at all.
    """
    folder = Folder(root, FolderLimits(file_bytes=_LARGEST), hidden=True)
    whole = sha256()
    for path in sorted(folder.files(onerror=_refuse)):
        whole.update(f"{path}\0{sha256(folder.content(path)).hexdigest()}\n".encode("utf-8", "surrogatepass"))
    return f"sha256:{whole.hexdigest()}"


def is_as_trusted(skill: Skill) -> bool:
    """Whether a skill is what somebody trusted; always so where nobody had to. Raises `DocumentError`."""
    return not skill.fingerprint or fingerprint(skill.folder) == skill.fingerprint


@dataclass(frozen=True, slots=True)
class SkillTrust:
    """Which skills of projects are trusted, in a file that only its owner may read."""

    path: Path = Path(".goalport") / TRUST_FILE

    def trusted(self, root: Path) -> str:
        """The fingerprint of a skill that is trusted as it is now; empty: it is new, or has changed since."""
        found = fingerprint(root)
        return found if self._record().get(_key(root)) == found else ""

    def trust(self, root: str | Path, *, seen: str = "") -> None:
        """Trust a skill as it is now; `seen` is the fingerprint that it had when somebody looked at it.

        Raises `DocumentError` for one that cannot be read, or has changed since it was seen.
        """
        folder = Path(root)
        found = fingerprint(folder)
        if seen and found != seen:
            raise DocumentError(f"The skill in {folder} has changed since it was shown. Look at it again.")
        record = {**self._record(), _key(folder): found}
        replace_file(self.path, json.dumps(record, indent=2, sort_keys=True))

    def _record(self) -> dict[str, str]:
        """By folder: the fingerprint that is trusted. Raises `DocumentError` for a file that holds something else."""
        try:
            found: object = json.loads(self.path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise _unreadable(self.path, type(error).__name__) from error
        record = cast("dict[str, object]", found) if isinstance(found, dict) else {"": None}
        if not all(isinstance(each, str) for each in record.values()):
            raise _unreadable(self.path, "it holds something else")
        return cast("dict[str, str]", record)


def _refuse(error: OSError) -> NoReturn:
    raise UnreadableDocument.after(error.filename, error)


def _key(root: Path) -> str:
    return str(root.resolve())


def _unreadable(path: Path, why: str) -> DocumentError:
    return DocumentError(f"Which skills are trusted cannot be read from {path} ({why}). Remove it to trust them anew.")
