"""Importing the room must stay cheap: every command imports it, and most make no result."""

import subprocess
import sys


def test_the_wire_library_is_imported_only_when_a_result_needs_it() -> None:
    script = (
        "import sys, goalport.tools as tools; assert 'mcp_types' not in sys.modules;"
        "from mcp_types import ContentBlock; assert tools.ContentBlock is ContentBlock;"
        "assert not hasattr(tools, 'nothing')"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
