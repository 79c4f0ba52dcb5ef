"""The site: one ASGI app of all doors behind one guard; listening, reloading and shutting down. Floor 11.

A door (`serve`) gives routes; it knows neither the site nor other doors.
"""

from goalport.site.app import create_app
from goalport.site.startup import serve_http, serve_stdio, startup_report

__all__ = ["create_app", "serve_http", "serve_stdio", "startup_report"]
