"""Archives of repositories, as GitHub makes them, and a site that serves them."""

import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from goalport.knowledge.documents import WebFetcher
from goalport.knowledge.documents.github import GitHubArchives
from tests.rooms.documents.loopback import Page, Site

__all__ = ["ONE", "TWO", "archive", "archives_of", "publish"]

ONE, TWO = "1" * 40, "2" * 40
"""Commits."""


def archive(
    files: Mapping[str, str | bytes], commit: str = ONE, *, top: str = "repository-main/", kind: bytes = tarfile.REGTYPE
) -> bytes:
    """An archive with these files; a name that ends with a slash is a folder. `kind` is that of the last file."""
    made = BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", format=tarfile.PAX_FORMAT, pax_headers={"comment": commit}) as target:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(f"{top}{name}")
            if name.endswith("/"):
                member.type = tarfile.DIRTYPE
            elif kind != tarfile.REGTYPE and name == [*files][-1]:
                member.type, member.linkname = kind, data.decode()
            else:
                member.size = len(data)
            target.addfile(member, BytesIO(data))
    return made.getvalue()


def publish(site: Site, repository: str, data: bytes, *refs: str) -> None:
    for ref in refs:
        site.pages[f"/{repository}/archive/{ref}.tar.gz"] = Page(data, headers={"content-type": "application/x-gzip"})


def archives_of(site: Site, folder: Path) -> GitHubArchives:
    return GitHubArchives(folder=folder, fetcher=WebFetcher(allow=[site.host]), base=site.address)
