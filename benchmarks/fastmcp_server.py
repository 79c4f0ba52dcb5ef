# It runs in FastMCP's own environment, which goalport's type checker does not see.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedFunctionDecorator=false, reportUnknownArgumentType=false
"""The same tool as a typed function of FastMCP, served as FastMCP serves by default."""

import asyncio

import uvicorn
from fastmcp import FastMCP
from listening import listen
from pydantic import BaseModel

server = FastMCP("fastmcp")


class Greeting(BaseModel):
    text: str


@server.tool
async def greet(name: str) -> Greeting:
    """Greet a person."""
    return Greeting(text=f"Hello, {name}!")


async def main() -> None:
    config = uvicorn.Config(server.http_app(), log_level="warning")
    await uvicorn.Server(config).serve(sockets=[listen()])


if __name__ == "__main__":
    asyncio.run(main())
