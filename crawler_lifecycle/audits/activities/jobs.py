"""Audit part `jobs`: compare the cluster's jobs with their runs, and end and remove jobs that outlived their runs.

`JobAudit` finds the jobs, and `Leftovers` takes the next step for every job: a job is asked to end, then killed by a
later audit, and removed when its evidence is stored.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic

from temporalio import activity

from crawler_lifecycle.audits.activities.auditing import AuditLedger
from crawler_lifecycle.audits.ports import Findings
from crawler_lifecycle.audits.rules import runs as rules
from crawler_lifecycle.audits.rules.runs import Step
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.clusters.ports import NO_UIDS, Cluster, Uids
from crawler_lifecycle.errors import LifecycleError, NotFound, Removed, TemporaryError
from crawler_lifecycle.model.audits import AuditPage, AuditStep, Finding, FindingKind
from crawler_lifecycle.model.looks import JobKey, uids_of
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.supervision import AuditedRun, AuditPatience, ListedJob
from crawler_lifecycle.runs.activities.reconciliation import EVIDENCE_IN_A_PAGE
from crawler_lifecycle.runs.ports import Records, Tasks

# seconds for collecting evidence before removals, for a page of the audit; the further jobs stay for the next audit
LONGEST_COLLECTING = 200.0
JOBS_WITH_EVIDENCE = 20  # per run, because a single finding holds the log lines of all these jobs
ASKED_TO_END = "asked to end"  # these words in a finding's action show the next audit that the jobs were asked
NOT_ALLOWED = (
    "not removed: only `crawlctl audit --repair --remove-unknown-jobs` removes such jobs, and only if the worker has "
    "CRAWLER_AUDIT__REMOVE_UNKNOWN_JOBS=true"
)
NextSteps = Mapping[JobKey, Step]  # the next step by job; a job that needs no step has no key
RUNS_IN_A_PAGE = 50  # runs per activity: every run costs a look, and its jobs may have to be ended
ROWS_AT_ONCE = 1000  # runs per request for rows
LONGEST_LOOKING = 200.0  # seconds; a page of a slow cluster then ends with fewer runs, before the activity times out
MOST_FINDINGS = 1000  # read to judge an empty cluster, the newest open findings first; further findings do not count
EMPTY_CLUSTER = "no job is listed, but lately {} runs had jobs that no audit has ended: is it another namespace?"
JobsByRun = Mapping[str, Sequence[ListedJob]]  # by run_uid


@dataclass
class Leftovers:
    """Ends jobs after the end of their run, for a page of an audit.

    Every page has its own object: the time for evidence counts from the creation of the object.
    """

    records: Records
    tasks: Tasks
    cluster: Cluster
    remove_unknown: bool  # whether the audit may end and remove jobs of runs missing in the database
    _collect_until: float = field(default_factory=lambda: monotonic() + LONGEST_COLLECTING, init=False)

    def end(self, finding: Finding, next_steps: NextSteps, uids: Uids) -> Finding:
        """Take every job's next step. Return the finding with actions, evidence and problems.

        `uids`: the jobs' recorded uids; with its uid a job is recognized although its labels were edited.
        """
        if finding.kind is FindingKind.UNKNOWN_JOB and not self.remove_unknown:
            return finding.model_copy(update={"problem": NOT_ALLOWED})
        evidence = self._evidence_of_living_jobs(finding, next_steps)
        return self._take_next_steps(finding.model_copy(update={"evidence": evidence}), next_steps, uids)

    def _evidence_of_living_jobs(self, finding: Finding, next_steps: NextSteps) -> str | None:
        """Return the last log lines of the jobs that the audit will end next; None without such jobs or lines.

        Only the finding keeps these lines: the run is over, and its task rows no longer change.
        """
        keys = [key for key, step in sorted(next_steps.items()) if step is not Step.REMOVE][:JOBS_WITH_EVIDENCE]
        try:
            evidence = self.cluster.evidence(finding.run_uid or "", keys) if keys else []
        except LifecycleError as error:  # the jobs must end although there is no evidence
            return f"no evidence: {error.message}"
        lines = [f"task {item.task}: {item.message or ''}\n{item.log_tail}".strip() for item in evidence]
        return "\n".join(lines) or None

    def _take_next_steps(self, finding: Finding, next_steps: NextSteps, uids: Uids) -> Finding:
        """Stop, kill and remove the jobs, each by its next step. A failed stop does not prevent a kill or a removal."""
        run_uid, actions, problems = finding.run_uid or "", list[str](), list[str]()
        for step, act in ((Step.STOP, self._stop), (Step.KILL, self._kill), (Step.REMOVE, self._remove)):
            keys = sorted(key for key, next_step in next_steps.items() if next_step is step)
            if not keys:
                continue
            try:
                actions.append(act(run_uid, keys, uids))
            except LifecycleError as error:
                problems.append(error.message)
        return finding.model_copy(update={"action": "; ".join(actions) or None, "problem": "; ".join(problems) or None})

    def _stop(self, run_uid: str, keys: Sequence[JobKey], uids: Uids) -> str:
        self.cluster.stop(run_uid, keys, uids=uids)
        return f"{counted(len(keys), 'job')} {ASKED_TO_END}"

    def _kill(self, run_uid: str, keys: Sequence[JobKey], uids: Uids) -> str:
        self.cluster.kill(run_uid, keys, uids=uids)
        return f"{counted(len(keys), 'job')} killed"

    def _remove(self, run_uid: str, keys: Sequence[JobKey], uids: Uids) -> str:
        """Remove the jobs with stored evidence; the other jobs stay for the next audit. Return the action.

        Raise TemporaryError if no job has evidence.
        """
        unexplained, problem = self._collect_missing_evidence(run_uid, keys)
        explained = sorted(set(keys).difference(unexplained))
        if not explained:
            raise TemporaryError(problem)
        staying = self.cluster.remove(run_uid, explained, uids=uids)
        action = f"{counted(len(explained) - staying, 'job')} removed, with logs kept"
        if staying:
            action += f", {staying} have to stay for now"
        if unexplained:
            action += f", {len(unexplained)} stay until the cluster reports what became of them: {problem}"
        return action

    def _collect_missing_evidence(self, run_uid: str, keys: Sequence[JobKey]) -> tuple[Sequence[JobKey], str]:
        """Collect the jobs' missing evidence. Return the jobs still without evidence and the reason, if there are any.

        Evidence is missing where the run's workflow ended before a busy cluster delivered the evidence.
        """
        row = self.records.audited_by_uid([run_uid]).get(run_uid)
        if row is None:  # an unknown run has no rows for evidence; the removal of its jobs still keeps their logs
            return [], ""
        missing = sorted(set(self.tasks.unexplained(row.run_id)).intersection(keys))
        while missing:
            if monotonic() > self._collect_until:
                return missing, "the evidence of other jobs took too long"
            try:
                evidence = self.cluster.evidence(run_uid, missing[:EVIDENCE_IN_A_PAGE])
            except TemporaryError as error:
                return missing, error.message
            self.tasks.reconcile(RunRef(run_id=row.run_id, run_uid=run_uid, epoch=row.epoch), evidence)
            missing = missing[EVIDENCE_IN_A_PAGE:]
        return [], ""


@dataclass
class Inventory:
    """All jobs in the cluster."""

    by_run: dict[str, list[ListedJob]] = field(default_factory=dict)  # by run_uid
    nameless: list[ListedJob] = field(default_factory=list)  # jobs without readable labels for run, task and attempt
    count: int = 0  # number of distinct names: a list may show a job twice


@dataclass
class PageOfLooks:
    """Results of the looks at runs in a page, all by run_uid."""

    findings: list[Finding] = field(default_factory=list)
    next_steps: dict[str, NextSteps] = field(default_factory=dict)
    uids: dict[str, Uids] = field(default_factory=dict)  # recorded uids of the run's jobs
    unknown: list[str] = field(default_factory=list)  # runs without a complete look
    looks: int = 0  # number of looks within the time


@dataclass(frozen=True)
class JobAudit:
    records: Records
    findings: Findings
    tasks: Tasks
    cluster: Cluster
    patience: AuditPatience
    may_remove_unknown_jobs: bool = False  # by the setting

    @activity.defn
    async def audit_jobs(self, step: AuditStep) -> AuditPage:
        """End and remove jobs after their run's end, and unknown runs' jobs if both request and setting permit."""
        inventory = await asyncio.to_thread(self._inventory)
        if not inventory.count:
            doubt = await asyncio.to_thread(self._doubt_about_empty_cluster, step.part.kinds)
            if doubt:
                return AuditPage(problem=doubt)
        disputed_runs = await asyncio.to_thread(self._disputed_runs, inventory.by_run, step.after or "")
        page = await asyncio.to_thread(self._look_at, disputed_runs[:RUNS_IN_A_PAGE], inventory.by_run)
        ledger = AuditLedger(step.audit, self.findings)
        # without this mark, the audit's end would close the findings about runs without a complete look
        await ledger.keep_open([(kind, run_uid) for run_uid in page.unknown for kind in step.part.kinds])
        # the input alone permits nothing: every caller of Temporal could write the permission into an input
        may_remove = step.audit.remove_unknown_jobs and self.may_remove_unknown_jobs
        leftovers = Leftovers(self.records, self.tasks, self.cluster, may_remove)

        async def act(finding: Finding) -> Finding:
            run_uid = finding.subject
            if run_uid not in page.next_steps:  # the subject is a nameless job: only reported
                return finding
            return await asyncio.to_thread(leftovers.end, finding, page.next_steps[run_uid], page.uids[run_uid])

        findings, examined = page.findings, 0
        if step.after is None:  # only the first page reports nameless jobs and counts the jobs of the whole cluster
            findings = findings + [rules.nameless_job(job) for job in inventory.nameless]
            examined = inventory.count
        settled = await ledger.settle(findings, act, examined=examined, unknown=len(page.unknown))
        last_run = disputed_runs[page.looks - 1] if page.looks else None
        has_next_page = page.looks < len(disputed_runs)
        # the next page gets `rest`, this page's last run_uid, as `after`
        return settled.model_copy(update={"rest": last_run if has_next_page else None})

    def _inventory(self) -> Inventory:
        """Return all jobs. An incomplete list raises an error, because a partial inventory gives no proof."""
        inventory, names = Inventory(), set[str]()
        for page in self.cluster.inventory():
            for job in page:
                if job.name in names:
                    continue
                names.add(job.name)
                if job.run_uid is None or job.key is None:
                    inventory.nameless.append(job)
                else:
                    inventory.by_run.setdefault(job.run_uid, []).append(job)
        inventory.count = len(names)
        return inventory

    def _doubt_about_empty_cluster(self, kinds: Collection[FindingKind]) -> str | None:
        """Return why an empty list of jobs is not believed, or None if it is: a wrong namespace looks empty, too.

        The doubt comes from open findings of these kinds: lately jobs were there, and no audit has acted on them since.
        """
        since = datetime.now(UTC) - self.patience.empty
        overview = self.findings.overview(audits=0, findings=MOST_FINDINGS)
        recent = [item for item in overview.findings if item.closed_at is None and item.last_seen_at > since]
        vanished = [item for item in recent if item.kind in kinds and not item.acts]
        return EMPTY_CLUSTER.format(len(vanished)) if vanished else None

    def _disputed_runs(self, jobs: JobsByRun, after: str) -> list[str]:
        """Return the run_uids after `after` whose jobs need a look, in order.

        The search ends as soon as the list is longer than a page: the caller then knows that a next page is due. The
        rows are read after the jobs, so no job is compared with a row older than the job.
        """
        disputed, now = list[str](), datetime.now(UTC)
        run_uids = sorted(run_uid for run_uid in jobs if run_uid > after)
        for start in range(0, len(run_uids), ROWS_AT_ONCE):
            chunk = {run_uid: jobs[run_uid] for run_uid in run_uids[start : start + ROWS_AT_ONCE]}
            disputed += rules.disputed(chunk, self.records.audited_by_uid(list(chunk)), now, self.patience)
            if len(disputed) > RUNS_IN_A_PAGE:
                break
        return disputed

    def _look_at(self, run_uids: Sequence[str], jobs: JobsByRun) -> PageOfLooks:
        """Look at runs until the time is up, at least at the first run."""
        last_actions, page, began_at = self._last_actions(run_uids), PageOfLooks(), monotonic()
        for run_uid in run_uids:
            if page.looks and monotonic() - began_at > LONGEST_LOOKING:
                break
            page.looks += 1
            keys = {job.key for job in jobs[run_uid] if job.key}
            uids = self._uids_on_record(run_uid, sorted(task for task, _ in keys))
            look = self.cluster.look(run_uid, sorted(keys), uids=uids)
            if not look.complete:
                page.unknown.append(run_uid)
                continue
            action = last_actions.get(run_uid)
            was_asked = action is not None and ASKED_TO_END in action
            next_steps = rules.steps(look, keys, acted=action is not None, requested=was_asked)
            row = self.records.audited_by_uid([run_uid]).get(run_uid)  # read after the look: the run may be open again
            if next_steps and (row is None or row.status.is_over):
                page.findings.append(self._finding(row, run_uid, jobs[run_uid], next_steps))
                page.next_steps[run_uid], page.uids[run_uid] = next_steps, uids
        return page

    def _uids_on_record(self, run_uid: str, tasks: Sequence[int]) -> Uids:
        """Return the uids of these tasks' jobs: a job with a recorded uid is ours, even if its labels were edited."""
        row = self.records.audited_by_uid([run_uid]).get(run_uid)
        return uids_of(self.tasks.rows(row.run_id, tasks)) if row else NO_UIDS

    def _last_actions(self, run_uids: Sequence[str]) -> dict[str, str]:
        """Return the last action of earlier audits by run_uid, only where the jobs have had time to end since."""
        subjects = [(kind, uid) for uid in run_uids for kind in (FindingKind.LEFTOVER_JOB, FindingKind.UNKNOWN_JOB)]
        before = datetime.now(UTC) - self.patience.insist
        return {
            run_uid: act.action or ""
            for (_, run_uid), act in self.findings.acted(subjects).items()
            if act.at and act.at <= before
        }

    def _finding(
        self, row: AuditedRun | None, run_uid: str, jobs: Sequence[ListedJob], next_steps: NextSteps
    ) -> Finding:
        """Return the finding for the run's jobs.

        The run is unknown, or removed by retention; or the jobs are later than the run's row, as in a database restored
        from a backup; or the jobs are left over after the run's end.
        """
        if row is None:
            removal = self._removal(run_uid)
            if removal is not None:
                return rules.removed_leftover(run_uid, removal, next_steps)
            return rules.unknown_job(run_uid, jobs, next_steps)
        attempts = self.records.attempts(row.run_id, [job.key[0] for job in jobs if job.key])
        if rules.is_older_than_jobs(row, jobs, attempts, self.patience):
            return rules.later_job(row, jobs, next_steps)
        return rules.leftover(row, next_steps)

    def _removal(self, run_uid: str) -> str | None:
        """Return when retention removed the run; None if it did not."""
        try:
            self.records.run_id(run_uid)
        except Removed as removed:
            return removed.message
        except NotFound:
            return None
        return None
