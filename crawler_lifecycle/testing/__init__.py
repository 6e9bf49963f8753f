"""Test kit for flows: runs workflows in memory with chosen outcomes, in virtual time, without Temporal or database.

`ManagerPlay` plays a crawl manager on the service's own ledger in a temporary file, with faked runs, and
`assert_crash_safe` lets the manager die at every point.

`run_inline` plays a workflow once, `explore` plays all outcomes, and `Play` lets a test act between the attempts. The
planner, the doors and the calls to functions are the service's own. The pytest fixture `flows` runs workflows on a real
stack.
"""

from crawler_lifecycle.extras import require

require("server")

from crawler_lifecycle.testing.crash_safety import assert_crash_safe
from crawler_lifecycle.testing.exploring import Explored, Outcome, Surprise, explore
from crawler_lifecycle.testing.flows import MemoryFlows
from crawler_lifecycle.testing.inline import Result, run_inline
from crawler_lifecycle.testing.manager_link import StartedJob
from crawler_lifecycle.testing.manager_play import ManagerPlay
from crawler_lifecycle.testing.outcomes import (
    Answer,
    CrawlOutcome,
    approved,
    completed,
    failed,
    killed_by_oom,
    refused,
    rejected,
    stopped,
)
from crawler_lifecycle.testing.play import Play
from crawler_lifecycle.testing.scenario import Scenario
from crawler_lifecycle.testing.validity import assert_valid

__all__ = [
    "Answer",
    "CrawlOutcome",
    "Explored",
    "ManagerPlay",
    "MemoryFlows",
    "Outcome",
    "Play",
    "Result",
    "Scenario",
    "StartedJob",
    "Surprise",
    "approved",
    "assert_crash_safe",
    "assert_valid",
    "completed",
    "explore",
    "failed",
    "killed_by_oom",
    "refused",
    "rejected",
    "run_inline",
    "stopped",
]
