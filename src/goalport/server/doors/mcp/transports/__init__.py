"""The transports of the MCP server, one file each: they carry messages, and `serve.server` handles them.

Those over HTTP are listed in `serve.door`. `stdio` serves one client, which started the server as its child process.
"""
