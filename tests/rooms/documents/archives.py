"""Archives of repositories, as GitHub makes them, and a site that serves them."""

import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from goalport.documents import WebFetcher
from goalport.documents.github import GitHubArchives
from tests.rooms.documents.loopback import Page, Site

__all__ = ["ONE", "TWO", "archive", "archives_of", "publish"]

ONE, TWO = "1" * 40, "2" * 40
"""Commits."""


def archive(files: Mapping[str, str | bytes], commit: str = ONE, *, top: str = "repository-main/") -> bytes:
    """An archive with these files; a name that ends with a slash is a folder."""
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in files.items():
            target.writestr(f"{top}{name}", content)
        target.comment = commit.encode()
    return made.getvalue()


def publish(site: Site, repository: str, data: bytes, *refs: str) -> None:
    for ref in refs:
        site.pages[f"/{repository}/archive/{ref}.zip"] = Page(data, headers={"content-type": "application/zip"})


def archives_of(site: Site, folder: Path) -> GitHubArchives:
    return GitHubArchives(folder=folder, fetcher=WebFetcher(allow=[site.host]), base=site.address)
