"""The command line: `goalport serve`, `check`, `run`, `new`, `connect` and the lists.

It reads options, hands them to the rooms below and prints what they answer; it decides nothing about agents, plans or
the wire. Nothing is above it; `platform`, `serve`, `workspace` and `settings` are below.
"""

from goalport.cli.program import execute, main

__all__ = ["execute", "main"]
