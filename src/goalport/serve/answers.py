"""The answer to a call: the goal's output or why there is none, what it cost, and what to do when it is too big.

`output` writes the values, `outcomes` words the ends; here they become one result on the wire. Nothing is awaited.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic_core import PydanticSerializationError, to_json

from goalport.errors import ToolError
from goalport.process import AgentProcess, Completed, Outcome, Waiting
from goalport.serve.handle import Handle
from goalport.serve.outcomes import handle_in_words, reason_of, unannounced
from goalport.serve.output import Output, Wire, done, failed, text_block
from goalport.serve.terms import Terms
from goalport.serve.texts import one_line, plain
from goalport.tools.arguments import UNREADABLE

__all__ = ["Answers", "cost_of", "error_wire", "result_uri"]


def error_wire(text: str) -> Wire:
    """A failure that a model is to read."""
    return failed(text_block(plain(text)))


def cost_of(process: AgentProcess) -> Mapping[str, float]:
    """What models cost a process and those that it started: US dollars, tokens, and how often they were asked."""
    spent = process.usage
    return {
        "usd": spent.cost,
        "inputTokens": spent.input_tokens,
        "outputTokens": spent.output_tokens,
        "modelCalls": process.ledger.requests,
    }


def result_uri(process_id: str) -> str:
    """Where the output of a process is read when it did not fit into its answer."""
    return f"goalport://processes/{process_id}/result"


def _handle(terms: Terms, process: AgentProcess) -> Wire:
    if not terms.hands_over:
        process.kill("It asks a person, and its publication does not say that it may.")
        return error_wire(unannounced(terms.name))
    try:
        handle = Handle.of(process)
    except UNREADABLE as error:
        reason = one_line(str(error))
        return error_wire(f"{terms.name} asks for something that cannot be read from JSON: {reason}. Cancel it.")
    return done([text_block(plain(handle_in_words(handle, terms.name)))], handle.structured)


@dataclass(frozen=True, slots=True)
class Answers:
    """How the calls of a server are answered."""

    max_bytes: int
    """An answer that takes more on the wire is not sent; mcp clients cut the connection at 1 MiB."""

    def of(self, terms: Terms, process: AgentProcess, outcome: Outcome | None) -> Wire:
        """The answer to a call of a goal, or of a companion tool; None: the process still runs."""
        if outcome is None or isinstance(outcome, Waiting):
            wire = _handle(terms, process)
        else:
            wire = self._end(terms.name, terms.output, process, outcome)
        wire["_meta"] = {
            "goalport/processId": process.id,
            "goalport/cost": cost_of(process),
            "goalport/actions": len(process.history),
        }
        return wire

    def fitting(self, tool: str, wire: Wire) -> Wire:
        """The answer of an exported tool, unless it is too big or no text: such a tool has no result to read later."""
        try:
            size = len(to_json(wire))
        except PydanticSerializationError as error:
            return error_wire(f"The result of {tool} cannot be written: {error}.")
        if size <= self.max_bytes:
            return wire
        return error_wire(
            f"The result of {tool} takes {size:,} bytes and an answer may have {self.max_bytes:,}. Ask for less."
        )

    def _end(self, tool: str, output: Output, process: AgentProcess, outcome: Outcome) -> Wire:
        if not isinstance(outcome, Completed):
            return error_wire(reason_of(outcome, tool) or "")
        try:
            wire, bound = output.wire(outcome.value)
        except PydanticSerializationError as error:
            return error_wire(f"{tool} was done, but its result cannot be written as its declared type: {error}.")
        except ToolError as error:
            return error_wire(f"{tool} was done, but {error}")
        if bound > self.max_bytes and (size := len(json.dumps(wire))) > self.max_bytes:
            return self._elsewhere(tool, process, size)
        return wire

    def _elsewhere(self, tool: str, process: AgentProcess, size: int) -> Wire:
        """An error, because a success without the promised structured content makes clients fail."""
        uri = result_uri(process.id)
        text = (
            f"{tool} was done, but its result takes {size:,} bytes and an answer may have {self.max_bytes:,}."
            f" Do not call it again: read the result in pieces from {uri}/1, {uri}/2 and so on,"
            f" or whole from {uri} (over SSE, clients refuse what is larger than 1 MiB)."
        )
        link = {"type": "resource_link", "uri": f"{uri}/1", "name": f"Result of {tool}, first piece"}
        return failed(text_block(text), link)
