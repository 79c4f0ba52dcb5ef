"""The site: one ASGI app with the routes of all doors behind one guard; it listens, reloads and shuts down.

A door is a protocol's entry to the server, such as `doors.mcp`. It gives routes and knows neither site nor other doors.
"""

from goalport.server.site.app import create_app
from goalport.server.site.startup import serve_http, serve_stdio, startup_report

__all__ = ["create_app", "serve_http", "serve_stdio", "startup_report"]
