"""The loaded workspace of `goalport serve` and its event loop: apart from the options, for it loads all libraries.

Below `serving`; platform and serve are below it.
"""

import sys

import anyio

from goalport.cli.place import Place
from goalport.cli.terminal import say
from goalport.greeting import Greeting
from goalport.site import serve_http, serve_stdio


def start(place: Place, greeting: Greeting | None, *, reload: bool) -> None:
    """Serve until the end: over stdio where a client is greeted, else over HTTP."""
    if not len(place.platform.agents):
        say(f"warning: {place.no_agents}")
    anyio.run(_serve, place, greeting, reload, backend_options={"use_uvloop": sys.platform != "win32"})


async def _serve(place: Place, greeting: Greeting | None, reload: bool) -> None:  # noqa: FBT001 - anyio.run hands on by position
    if greeting is None:
        await serve_http(place.platform, place.workspace, place.settings, reload=reload)
    else:
        await serve_stdio(place.platform, place.workspace, place.settings, reload=reload, greeting=greeting)
