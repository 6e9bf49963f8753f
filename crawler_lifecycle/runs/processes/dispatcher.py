"""Dispatcher: a loop that claims queued tasks and asks the scheduler service to deploy these tasks.

The tasks are child tasks, main tasks at a further attempt, and main tasks of runs that waited for their permit.

A claim expires on its own, so another dispatcher claims a dead dispatcher's tasks. If such a task already has a job,
the service answers with the existing job: the request's key is the same.
"""

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from crawler_lifecycle import logs
from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.http.health import Pulses
from crawler_lifecycle.runs.activities.deployment import ClaimDeployer
from crawler_lifecycle.runs.ports import Claim, Claims

log = logging.getLogger(__name__)
LONGEST_PAUSE = timedelta(seconds=5)  # between passes, after many failures in a row
PAUSE_FOR_A_PASS = 4  # so that idle passes take at most a fifth of the time


@dataclass
class Dispatcher:
    claims: Claims
    claim_deployer: ClaimDeployer
    claim_duration: timedelta
    threads: int  # number of the pool's threads
    pool: ThreadPoolExecutor
    # marks our claims: the next pass may take back a claim whose request failed
    token: str = field(default_factory=lambda: f"dispatcher:{uuid4()}")
    pulses: Pulses = field(default_factory=Pulses)

    def run(self, stopped: threading.Event, interval: timedelta) -> None:
        """Make passes until the event is set. A pass that deployed a task is followed by the next pass at once.

        After an idle pass the pause is the interval, and after failures in a row the pause grows. The pause is at least
        PAUSE_FOR_A_PASS times as long as the pass, up to LONGEST_PAUSE: a pass may examine thousands of queued runs.
        """
        failures, backoff = 0, Backoff(interval, LONGEST_PAUSE)
        while not stopped.is_set():
            began = time.monotonic()
            try:
                deployed = self.dispatch()
                failures = 0
                self.pulses.passed()
            except LifecycleError as error:
                failures += 1
                self.pulses.failed(error)
                log.warning("nothing dispatched: %s", error.message)
                deployed = 0
            if not deployed:
                least = min(PAUSE_FOR_A_PASS * (time.monotonic() - began), LONGEST_PAUSE.total_seconds())
                stopped.wait(max(backoff.seconds(failures + 1), least))

    def dispatch(self) -> int:
        """Make one pass: deploy tasks as far as the limits allow, at most one for every thread. Return their number.

        A claim that waits for a thread could expire before its request. No request is under way now, so a claim with
        our token is left over from a failed request, and is taken again.
        """
        return self._deploy_all(self.claims.claim_tasks(self.token, self.claim_duration, self.threads))

    def _deploy_all(self, claims: Sequence[Claim]) -> int:
        """Deploy all claims at the same time, wait for all answers, and return the number of deployed tasks.

        A failed claim stops no other claim. If claims failed and no task was deployed, raise the first error, so that
        the pass counts as failed.
        """
        deployments = [self.pool.submit(self._deploy, claim) for claim in claims]
        wait(deployments)
        deployed, errors = 0, list[LifecycleError]()
        for claim, deployment in zip(claims, deployments, strict=True):
            try:
                deployed += deployment.result()
            except LifecycleError as error:
                errors.append(error)
                log.warning("task %s of run %s: %s", claim.task, claim.run_id, error.message)
        if errors and not deployed:
            raise errors[0]
        return deployed

    def _deploy(self, claim: Claim) -> bool:
        """Deploy one task. Return whether the task has a job now; otherwise the log has the cause."""
        with logs.about(run_id=claim.run_id, task=claim.task, attempt=claim.request.attempt):
            outcome = self.claim_deployer.deploy(claim)
            if outcome.cause and not outcome.held:
                log.warning("%s: %s", outcome.cause, outcome.message)
            return outcome.job_id is not None
