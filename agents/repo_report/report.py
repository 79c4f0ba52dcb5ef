"""The report itself: the figures, and the same in words."""

from .figures import Figures
from .markdown import worded


class RepositoryReport(Figures):
    """A report about a folder."""

    @property
    def content(self) -> str:
        """The whole report as Markdown; no field, since it says in words what the fields say."""
        return worded(self)
