"""Typed functions of the SDK's `MCPServer`, with structured output. `python -m benchmarks.typed`.

It is tuned as `bare --tuned` is. It validates arguments, calls a function, and writes its result, in JSON and as text;
it neither plans nor keeps anything.
"""

from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel

from benchmarks.bare import serve

server = MCPServer("typed", log_level="WARNING")
server.middleware.clear()


class Greeting(BaseModel):
    text: str


class Page(BaseModel):
    text: str


class Count(BaseModel):
    characters: int


@server.tool()
async def greet(name: str) -> Greeting:
    """Greet a person."""
    return Greeting(text=f"Hello, {name}!")


@server.tool()
async def page(characters: int) -> Page:
    """A page of so many characters."""
    return Page(text="x" * characters)


@server.tool()
async def count(text: str) -> Count:
    """Count the characters of a text."""
    return Count(characters=len(text))


if __name__ == "__main__":
    serve(server.streamable_http_app(json_response=True), tuned=True)
