"""The transports of the MCP server, one file each: they carry messages, and `doors.mcp.server` handles them.

Those over HTTP are listed in `doors.mcp.door`. `stdio` serves one client, which started the server as its child.
"""
