"""The command line: `goalport serve`, `check`, `run`, `new`, `connect` and the lists.

It reads options, passes them to the packages below and prints their results; it decides nothing about agents, plans or
MCP. Nothing is above it, and all other wings are below.
"""

from goalport.cli.program import execute, main

__all__ = ["execute", "main"]
