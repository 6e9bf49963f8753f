"""Dispatcher: a loop that claims queued child tasks and asks the scheduler service to deploy these tasks.

A claim expires by itself. After the death of a dispatcher the next dispatcher claims its tasks. If a job was already
made, the service answers with this job, since the key is the same.
"""

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import uuid4

from crawler_lifecycle import logs
from crawler_lifecycle.activities.deploying import ClaimDeployer
from crawler_lifecycle.domain.admission import Demand, admitted, causes
from crawler_lifecycle.domain.pacing import Backoff
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import Backlog, Claim, Claims
from crawler_lifecycle.services.health import Pulses

log = logging.getLogger(__name__)

LONGEST_PAUSE = timedelta(seconds=5)


@dataclass
class Dispatcher:
    claims: Claims
    claim_deployer: ClaimDeployer
    most_in_cluster: int
    claim_for: timedelta
    threads: int
    pool: ThreadPoolExecutor
    token: str = field(default_factory=lambda: f"dispatcher:{uuid4()}")
    pulses: Pulses = field(default_factory=Pulses)
    _passes: int = 0

    def run(self, stopped: threading.Event, interval: timedelta) -> None:
        failures, backoff = 0, Backoff(interval, LONGEST_PAUSE)
        while not stopped.is_set():
            try:
                deployed = self.dispatch()
                failures = 0
                self.pulses.passed()
            except LifecycleError as error:
                failures += 1
                self.pulses.failed(error.message)
                log.warning("nothing dispatched: %s", error.message)
                deployed = 0
            if not deployed:
                stopped.wait(backoff.seconds(failures + 1))

    def dispatch(self) -> int:
        """Make one pass: deploy the admitted tasks, record why the rest waits, and return the number deployed."""
        backlogs = self.claims.backlogs(self.token)  # including tasks whose request failed in an earlier pass
        if not backlogs:
            return 0
        demands = [_demand(backlog) for backlog in self._in_turn(backlogs)]
        granted = admitted(demands, self.most_in_cluster - self.claims.in_cluster(self.token))
        for run_id, cause in causes(demands, granted).items():
            self.claims.explain(run_id, cause)
        return self._deploy_all(list(self._claim(demands, granted)))

    def _deploy_all(self, claims: Sequence[Claim]) -> int:
        """Deploy all claims and return the number deployed. A failure stops no other claim.

        No request outlives the pass."""
        under_way = [self.pool.submit(self._deploy, claim) for claim in claims]
        wait(under_way)
        deployed, errors = 0, list[LifecycleError]()
        for claim, answer in zip(claims, under_way, strict=True):
            try:
                deployed += answer.result()
            except LifecycleError as error:
                errors.append(error)
                log.warning("task %s of run %s: %s", claim.task, claim.run_id, error.message)
        if errors and not deployed:
            raise errors[0]
        return deployed

    def _in_turn(self, backlogs: Sequence[Backlog]) -> Sequence[Backlog]:
        """Let every pass begin with another run, so that no run always comes last."""
        self._passes += 1
        first = self._passes % len(backlogs)
        return [*backlogs[first:], *backlogs[:first]]

    def _claim(self, demands: Sequence[Demand], granted: Mapping[int, int]) -> Iterator[Claim]:
        """Claim as many tasks as there are threads: a claim waiting for a thread could expire before its request."""
        # `granted` respects the runs' own limits already, so the second division drops these limits
        wanted = [replace(demand, waiting=granted[demand.run_id], max_in_cluster=None) for demand in demands]
        for run_id, most in admitted(wanted, self.threads).items():
            if most:
                yield from self.claims.claim_children(run_id, self.token, self.claim_for, most)

    def _deploy(self, claim: Claim) -> bool:
        with logs.about(run_id=claim.run_id, task=claim.task, attempt=claim.request.attempt):
            outcome = self.claim_deployer.deploy(claim)
            if outcome.cause:
                log.warning("%s: %s", outcome.cause, outcome.message)
            return outcome.job_id is not None


def _demand(backlog: Backlog) -> Demand:
    return Demand(backlog.run_id, backlog.waiting, backlog.in_cluster, backlog.max_parallel)
