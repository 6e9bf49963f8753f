"""Who has the child tasks deployed? This loop: it claims what may run now and asks the scheduler service.

A claim runs out by itself: a dispatcher that dies leaves nothing behind that the next one does not take up, and
a job that was made meanwhile is found under the same key.
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from crawler_lifecycle import logs
from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.domain.admission import Demand, admitted, causes
from crawler_lifecycle.domain.pacing import growing_pause
from crawler_lifecycle.errors import BadInput, Conflict, LifecycleError, Refused
from crawler_lifecycle.ports import Backlog, Claim, Claims, Cluster, Deployer

log = logging.getLogger(__name__)

SCHEDULER_UNAVAILABLE = "scheduler_unavailable"
DEPLOYMENT_REFUSED = "deployment_refused"
LONGEST_PAUSE = timedelta(seconds=5)


@dataclass
class Dispatcher:
    claims: Claims
    deployer: Deployer
    cluster: Cluster
    most_in_cluster: int
    claim_for: timedelta
    threads: int
    pool: ThreadPoolExecutor
    token: str = field(default_factory=lambda: f"dispatcher:{uuid4()}")

    def run(self, stopped: threading.Event, interval: timedelta) -> None:
        failures = 0
        while not stopped.is_set():
            try:
                deployed = self.dispatch()
                failures = 0
            except LifecycleError as error:
                failures += 1
                log.warning("nothing dispatched: %s", error.message)
                deployed = 0
            if not deployed:
                stopped.wait(growing_pause(failures + 1, interval, LONGEST_PAUSE).total_seconds())

    def dispatch(self) -> int:
        """One pass: what may be deployed now is; why the rest waits is written down. How many were deployed."""
        backlogs = self.claims.backlogs(self.token)
        if not backlogs:
            return 0
        demands = [_demand(backlog) for backlog in backlogs]
        granted = admitted(demands, self.most_in_cluster - self.claims.in_cluster(self.token))
        for run_id, cause in causes(demands, granted).items():
            self.claims.explain(run_id, cause)
        return sum(self.pool.map(self._deploy, list(self._claimed(granted))))

    def _claimed(self, granted: Mapping[int, int]) -> Iterator[Claim]:
        """As many as there are threads: a claim that waited for one could run out before its request."""
        left = self.threads
        for run_id, most in granted.items():
            if most and left:
                claims = self.claims.claim_children(run_id, self.token, self.claim_for, min(most, left))
                left -= len(claims)
                yield from claims

    def _deploy(self, claim: Claim) -> bool:
        with logs.about(run_id=claim.run_id, task=claim.task, attempt=claim.request.attempt):
            try:
                return self._deployed(claim)
            except (Refused, BadInput, Conflict) as error:
                log.error("refused: %s", error.message)
                self.claims.failed(claim, DEPLOYMENT_REFUSED, error.message, refused=True)
            except LifecycleError as error:
                log.warning("not deployed for now: %s", error.message)
                self.claims.failed(claim, SCHEDULER_UNAVAILABLE, error.message, refused=False)
        return False

    def _deployed(self, claim: Claim) -> bool:
        deployment = self.deployer.deploy(claim.request)
        if self.claims.deployed(claim, deployment) is not Intent.RUN:
            # the stop may have listed the jobs before this one was there
            self.cluster.stop(claim.request.run_uid, [(claim.task, claim.request.attempt)])
        log.debug("deployed %s", deployment.job_name)
        return True


def _demand(backlog: Backlog) -> Demand:
    return Demand(backlog.run_id, backlog.waiting, backlog.in_cluster, backlog.max_parallel)
