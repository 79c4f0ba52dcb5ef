"""The ASGI app of this workspace, for servers of your choice: `uvicorn server.app:app --timeout-graceful-shutdown 15`.

`goalport serve` serves the same and knows how to end: it lets calls finish, then answers and closes what is left.
"""

from pathlib import Path

from goalport import AgentPlatform
from goalport.server import create_app
from goalport.workspace import load_workspace
from goalport.workspace.settings import load_settings

root = Path(__file__).parents[1]
settings = load_settings(root)
workspace = load_workspace(root)
app = create_app(AgentPlatform.from_workspace(workspace, settings), workspace, settings)
