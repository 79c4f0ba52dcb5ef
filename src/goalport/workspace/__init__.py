"""A workspace: the folder whose `agents/` and `tools/` are served.

Loads what users wrote and finds in it what means something to goalport. It neither reads classes into agents nor
deploys them: `platform`, above, does. Below are `domain` and `tools`, which say what is worth finding.
"""

from goalport.workspace.folder import Workspace, load_workspace
from goalport.workspace.importer import FOLDERS, PACKAGE, Importable, install_importer, workspace_importer
from goalport.workspace.loading import LoadedModule
from goalport.workspace.problems import LoadProblem

__all__ = [
    "FOLDERS",
    "PACKAGE",
    "Importable",
    "LoadProblem",
    "LoadedModule",
    "Workspace",
    "install_importer",
    "load_workspace",
    "workspace_importer",
]
