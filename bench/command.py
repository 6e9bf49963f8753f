"""Duration of a cold `crawlctl list`, beside an API on the same machine."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from bench.measuring import BARE_PYTHON, side_by_side
from bench.table import Scale, Table
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.runs.ports import NewRun
from tests.kit.service.commands import api_on

RUNS, TASKS = 100, 4
CRAWLCTL = str(Path(sys.executable).with_name("crawlctl"))


def measure(scale: Scale) -> Table:
    with TemporaryDirectory(prefix="bench-list-") as folder:
        _fill(f"sqlite:///{folder}/crawler.db")
        commands = {
            "`python -c pass`": BARE_PYTHON,
            "`crawlctl --help`": [CRAWLCTL, "--help"],
            "`crawlctl list`": [CRAWLCTL, "list", "--state", folder],
        }
        with api_on(Path(folder)):
            taken = side_by_side(commands, scale.repeats)
    bare = taken["`python -c pass`"].seconds
    rows = [(name, cost.seconds, cost.seconds / bare, cost.cpu_seconds) for name, cost in taken.items()]
    return Table(("command", "median s", "times bare Python", "CPU s"), rows)


def _fill(url: str) -> None:
    upgrade(url)
    database = Database(url)
    entry = Crawler(name="books", command=["true"])
    for _ in range(RUNS):
        new = NewRun(RunRequest(crawler="books"), entry, TASKS, f"crawl-{uuid4()}", str(uuid4()))
        SqlStore(database).runs.create(new)
    database.close()
