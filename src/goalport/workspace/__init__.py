"""A workspace: the folder whose `agents/` and `tools/` are served.

It loads the modules of users and finds what goalport can use in them. It neither reads classes into agents nor deploys
them: `platform`, above, does. Below are `domain` and `tools`, which define what to look for.
"""

from goalport.workspace.declarations import Declaration, argument_resolver, guard, listener, ranker, service
from goalport.workspace.folder import Command, LoadedModule, LoadProblem, Workspace, command, load_workspace
from goalport.workspace.importer import FOLDERS, PACKAGE, Importable, install_importer, workspace_importer

__all__ = [
    "FOLDERS",
    "PACKAGE",
    "Command",
    "Declaration",
    "Importable",
    "LoadProblem",
    "LoadedModule",
    "Workspace",
    "argument_resolver",
    "command",
    "guard",
    "install_importer",
    "listener",
    "load_workspace",
    "ranker",
    "service",
    "workspace_importer",
]
