"""Main for a managers' host with faked runs: `python -m bench.manager_host URL STEPS FIGURES`.

A start is answered at once, and its run's end is stored a moment later. `STEPS`: file with a supervisor's message in
each line; `FIGURES`: file for figures, at the last manager's end.
"""

import asyncio
import json
import sys
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, event, select, update

from bench import manager_steps
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import flows
from crawler_lifecycle.database.manager_schema import manager_attempts
from crawler_lifecycle.flows.authors.modules import load
from crawler_lifecycle.flows.rules.messages import RunSteps
from crawler_lifecycle.hosts.host import StepHost
from crawler_lifecycle.hosts.managers.crawls import ManagerCatalogue
from crawler_lifecycle.hosts.managers.hosting import managers_of
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.runs.rules.plan import RunLimits
from crawler_lifecycle.settings.processes import FlowSettings

A_MOMENT = 0.05
attempts = manager_attempts.c
END = update(manager_attempts).where(
    attempts.ended_at.is_(None),
    attempts.flow == select(flows.c.id).where(flows.c.uid == bindparam("of_flow")).scalar_subquery(),
    attempts.member.in_(bindparam("members", expanding=True)),
)


class FakedRuns:
    """Runs without a life: they end after their start. Ends are stored together, with a single statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._members: dict[str, list[int]] = {}  # by flow
        self.starts = 0

    async def start_crawl(self, workflow_id: str, request: RunRequest) -> None:
        assert request.flow is not None, workflow_id
        self._members.setdefault(request.flow.flow_uid, []).append(request.flow.member)
        self.starts += 1

    async def stop(self, workflow_id: str, stop: StopRequest) -> str:
        return f"{workflow_id} has ended {stop.door}"

    async def run(self) -> None:
        while True:
            await asyncio.sleep(A_MOMENT)
            if self._members:
                members, self._members = self._members, {}
                await asyncio.to_thread(self._end, members)

    def _end(self, members: dict[str, list[int]]) -> None:
        ended = END.values(run_id=attempts.number, run_uid="faked", ended_at=datetime.now(UTC), outcome="finished")
        with self._database.transaction() as tx:
            for flow, numbers in members.items():
                tx.execute(ended, {"of_flow": flow, "members": numbers})


async def main(url: str, steps: Path, figures: Path) -> None:
    database = Database(url)
    statements = Counter[str]()
    event.listen(database.engine, "before_cursor_execute", partial(_count, statements))
    store, runs = SqlStore(database), FakedRuns(database)
    messages = [RunSteps.model_validate_json(line) for line in steps.read_text().splitlines()]
    host = StepHost(
        store.step_ledger,
        store.flow_doors,
        load([manager_steps.__name__]),
        FlowSettings(lease_seconds=5 if len(messages) == 1 else 60, drain_seconds=1, manager_slots=len(messages)),
        "the benchmark's host",
        managing=partial(managers_of, store.managers, runs, ManagerCatalogue(None, RunLimits())),  # type: ignore[arg-type]
    )
    ends = asyncio.create_task(runs.run())
    async with host.running():
        await asyncio.gather(*map(host.run, messages))
    ends.cancel()
    with suppress(asyncio.CancelledError):
        await ends
    figures.write_text(json.dumps({"statements": statements.total(), "starts": runs.starts, "by_kind": statements}))


def _count(statements: Counter[str], _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
    if not statement.startswith("BEGIN"):
        statements[" ".join(statement.split()[:3])] += 1


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
