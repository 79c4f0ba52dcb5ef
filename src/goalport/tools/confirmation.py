"""Tools that a person has to confirm. User guide, "Awaiting tools"."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from goalport.tools.definition import Tool

__all__ = ["with_confirmation"]


def with_confirmation(tool: Tool, message: str | Callable[[Mapping[str, object]], str]) -> Tool:
    """A copy of a tool to each of whose calls a person has to say yes; then it runs, and after a no it does not.

    `message` is the question, or makes it of the arguments: `with_confirmation(pay, lambda given: f"Pay {given}?")`.
    The process that calls the tool waits for the answer; what is asked in it is a yes or no. A model is told of a no.
    """

    def words(arguments: Mapping[str, object]) -> str:
        return message(arguments) if callable(message) else message

    return replace(tool, approval="always", confirmation=words)
