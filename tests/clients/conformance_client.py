"""The client that the conformance suite starts for each scenario: it asks the test to connect, and ends as it is told.

The test connects with goalport, in one process for all scenarios: starting Python with goalport for each takes longer
than the scenarios. So this program imports nothing but what Python starts with. No test is in here.
"""

import json
import os
import socket
import sys

GIVEN = ("MCP_CONFORMANCE_SCENARIO", "MCP_CONFORMANCE_CONTEXT")

if __name__ == "__main__":
    port, url = sys.argv[1:]
    with socket.create_connection(("127.0.0.1", int(port))) as test, test.makefile("rw") as lines:
        lines.write(json.dumps([url, *(os.environ.get(each, "") for each in GIVEN)]) + "\n")
        lines.flush()
        sys.exit(lines.readline().strip())
