"""Goalport plans and runs typed agents and publishes their goals as MCP tools."""

__version__ = "0.1.0"
__all__: list[str] = []
