"""Activities for the main job: deploy the job, and see whether the job has started."""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from temporalio import activity

from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.limits.rules.rooms import Hold
from crawler_lifecycle.model.looks import JobPhase, Look, TaskRow, uids_of
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.reasons import CLUSTER_UNKNOWN
from crawler_lifecycle.model.run_plan import RunInput, RunRef
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.runs.activities.deploying import ClaimDeployer
from crawler_lifecycle.runs.activities.metrics import count_saturated
from crawler_lifecycle.runs.model.deployment import DeploymentOutcome, MainJobStatus
from crawler_lifecycle.runs.ports.runs import Claims, Runs, RunState, Tasks
from crawler_lifecycle.runs.rules.saturation import in_words, is_saturated
from crawler_lifecycle.runs.rules.verdict import verdict


@dataclass(frozen=True)
class DeploymentActivities:
    runs: Runs
    tasks: Tasks
    claims: Claims
    cluster: Cluster
    claim_deployer: ClaimDeployer
    claim_for: timedelta  # time until the expiry of a claim

    @activity.defn(no_thread_cancel_exception=True)
    def run_scheduled_crawler(self, step: RunInput) -> DeploymentOutcome:
        """Deploy the main job for a run started by the clock."""
        return self._deploy_main(step.run)

    @activity.defn(no_thread_cancel_exception=True)
    def run_onetime_crawler(self, step: RunInput) -> DeploymentOutcome:
        """Deploy the main job for a run started by a person or a program."""
        return self._deploy_main(step.run)

    @activity.defn(no_thread_cancel_exception=True)
    def get_main_job_status(self, step: RunInput) -> MainJobStatus:
        """Return whether the main job runs or has run; for a waiting job, also the cause and the start of the wait."""
        began_at, run = time.monotonic(), self.runs.state(step.run)
        status = self._observe_main_job(step.run, run)
        cause = status.cause if status.known else CLUSTER_UNKNOWN
        since, saturated = self._mark_waiting(run, step.run, cause, status.message)
        problem = None if status.known else status.message
        # this stage plans no looks in advance: the workflow's pauses and nudges decide
        self.runs.mark_look(step.run, run.nudge_sent, status.known, problem, next_look_at=None)
        seconds = time.monotonic() - began_at
        return status.model_copy(
            update={"since": since, "saturated": saturated, "intent": run.intent, "seconds": seconds}
        )

    def _deploy_main(self, run: RunRef) -> DeploymentOutcome:
        """Deploy the main job, and record why the run waits if there is no job."""
        claim = self.claims.claim_main(run, f"supervisor:{run.epoch}", self.claim_for)
        if claim is None:
            return self._outcome_without_claim(run)
        if isinstance(claim, Hold):
            return DeploymentOutcome(cause=claim.cause, message=claim.message, held=True)
        outcome = self.claim_deployer.deploy(claim)
        if outcome.held:  # the claim's hold has written the cause
            return outcome
        _, saturated = self._mark_waiting(self.runs.state(run), run, outcome.cause, outcome.message)
        return outcome.model_copy(update={"saturated": saturated})

    def _mark_waiting(
        self, state: RunState, run: RunRef, cause: str | None, message: str | None
    ) -> tuple[datetime | None, str | None]:
        """Record the cause of the run's wait; None: the run does not wait.

        Return the start of the wait, and the cause again if the run is saturated by this cause, else None.
        """
        since = state.waiting_since if state.waiting_cause == cause else None
        saturated = cause if is_saturated(cause, since, datetime.now(UTC)) else None
        count_saturated(saturated, state.cluster)
        if saturated:
            message = f"{in_words(cause)}: {message}" if message else in_words(cause)
        if (cause, message) == (state.waiting_cause, state.waiting_message):
            return since, saturated
        return self.runs.mark_waiting(run, cause, message), saturated

    def _outcome_without_claim(self, run: RunRef) -> DeploymentOutcome:
        """Return the result of the earlier or concurrent deployment; its claim prevented our claim."""
        row, intent = self._main_row(run), self.runs.state(run).intent
        if row.job_uid:
            return DeploymentOutcome(job_id=row.job_uid, intent=intent)
        if row.status.is_over:
            return DeploymentOutcome(cause=row.reason, refused=True, intent=intent)
        message = "another deployment of this job is under way"
        return DeploymentOutcome(cause="claimed_elsewhere", message=message, intent=intent)

    def _main_row(self, run: RunRef) -> TaskRow:
        return self.tasks.rows(run.run_id, [MAIN_TASK])[0]

    def _observe_main_job(self, run: RunRef, state: RunState) -> MainJobStatus:
        row = self._main_row(run)
        if row.status.is_over:
            return MainJobStatus(started=True, started_at=row.started_at)
        key = (MAIN_TASK, row.attempt)
        look = self.cluster.look(run.run_uid, [key], uids=uids_of([row]))
        job = look.jobs.get(key)
        if job is None:
            return MainJobStatus(known=look.complete, vanished=look.complete, message=look.problem)
        if job.phase is JobPhase.UNCLEAR:
            return MainJobStatus(known=False, message=job.message)
        if job.phase is JobPhase.WAITING and not self._is_given_up(run, state, row, look):
            return MainJobStatus(cause=job.cause or "waiting", message=job.message)
        return MainJobStatus(started=True, started_at=job.started_at)

    def _is_given_up(self, run: RunRef, state: RunState, row: TaskRow, look: Look) -> bool:
        """End a main job that waits too long for what will not come, such as an image. Return whether its task is over.

        In this stage the run's row and not the task's row has the cause and the start of the wait. The job is given up
        first, since it may start at any moment; the next stage ends its remains.
        """
        waiting = replace(row, cause=state.waiting_cause, cause_since=state.waiting_since)
        change = verdict(waiting, look, state.intent, datetime.now(UTC))
        if state.intent is not Intent.RUN or change is None or change.status is not TaskStatus.FAILED:
            return False
        key = row.task, row.attempt
        if key not in self.cluster.give_up(run.run_uid, [look.jobs[key]]):
            return False
        if self.tasks.sync(run, [change]) != 1:
            return False
        try:
            self.cluster.stop(run.run_uid, [key], uids=uids_of([row]))
        except LifecycleError as error:
            activity.logger.warning("run %s: the given up main job could not be ended: %s", run.run_id, error.message)
        return True
