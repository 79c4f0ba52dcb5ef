"""The agent that reports on repositories: `report_repository` over MCP. See docs/repo-report.md.

`agent` has the steps, `request` and `report` what goes in and comes out. `folder`, `git`, `repository`, `gitlog`,
`walking` and `reading` touch the machine; all other modules are pure.
"""

from .agent import RepositoryReporter

repository_reporter = RepositoryReporter()
