"""Audit part `jobs`: compare the cluster's jobs with their runs, and end leftover jobs."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic

from temporalio import activity

from crawler_lifecycle.activities.auditing import Ledger
from crawler_lifecycle.activities.leftovers import ASKED, Leftovers, Needed
from crawler_lifecycle.contract.audits import AuditPage, AuditStep, Finding, FindingKind
from crawler_lifecycle.domain.audit import jobs as rules
from crawler_lifecycle.domain.audit.subjects import AuditedRun, AuditPatience, ListedJob
from crawler_lifecycle.domain.looks import uids_of
from crawler_lifecycle.ports import NO_UIDS, Cluster, Findings, Records, Tasks, Uids

RUNS_IN_A_PAGE = 50  # every run costs a look, and its jobs may have to be ended
ROWS_AT_ONCE = 1000
LONGEST_LOOKING = 200.0  # seconds of a page for looks: on a slow cluster a page has fewer runs instead of a time-out
MOST_FINDINGS = 1000  # read to judge an empty cluster
EMPTY = "no job is listed, and lately those of {} runs were there that nobody has ended: is it another namespace?"
Jobs = Mapping[str, Sequence[ListedJob]]


@dataclass
class Inventory:
    """All jobs in the cluster, by run."""

    by_run: dict[str, list[ListedJob]] = field(default_factory=dict)
    nameless: list[ListedJob] = field(default_factory=list)
    count: int = 0  # distinct names: a list may show a job twice


@dataclass
class PageOfLooks:
    """Results of the looks at runs in a page, and how many looks the time allowed."""

    findings: list[Finding] = field(default_factory=list)
    needed: dict[str, Needed] = field(default_factory=dict)  # by run_uid: the next step for the run's jobs
    uids: dict[str, Uids] = field(default_factory=dict)  # by run_uid: the uids on record
    unknown: list[str] = field(default_factory=list)  # runs without a complete look
    looks: int = 0


@dataclass(frozen=True)
class JobAudit:
    records: Records
    findings: Findings
    tasks: Tasks
    cluster: Cluster
    patience: AuditPatience

    @activity.defn
    async def audit_jobs(self, step: AuditStep) -> AuditPage:
        """End and remove jobs left after their run's end; report jobs of unknown runs."""
        inventory = await asyncio.to_thread(self._inventory)
        if not inventory.count:
            problem = await asyncio.to_thread(self._doubt_empty_cluster, step.part.kinds)
            if problem:
                return AuditPage(problem=problem)
        due = await asyncio.to_thread(self._due_runs, inventory.by_run, step.after or "")
        page = await asyncio.to_thread(self._look_at, due[:RUNS_IN_A_PAGE], inventory.by_run)
        ledger = Ledger(step.audit, self.findings)
        await ledger.keep_open([(kind, run_uid) for run_uid in page.unknown for kind in step.part.kinds])
        leftovers = Leftovers(self.records, self.tasks, self.cluster, step.audit.remove_unknown_jobs)

        async def act(finding: Finding) -> Finding:
            if finding.subject not in page.needed:  # a job without a name for its run is reported only
                return finding
            run_uid = finding.subject
            return await asyncio.to_thread(leftovers.end, finding, page.needed[run_uid], page.uids[run_uid])

        findings, examined = page.findings, 0
        if step.after is None:  # the first page counts for the whole cluster
            findings = findings + [rules.nameless_job(job) for job in inventory.nameless]
            examined = inventory.count
        settled = await ledger.settle(findings, act, examined=examined, unknown=len(page.unknown))
        rest = due[page.looks - 1] if page.looks < len(due) else None
        return settled.model_copy(update={"rest": rest})

    def _inventory(self) -> Inventory:
        """Return all jobs. A list that breaks off raises an error, because a partial inventory proves nothing."""
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

    def _due_runs(self, jobs: Jobs, after: str) -> list[str]:
        """Return, in order, the runs after `after` whose jobs need a look.

        Stop after more than a page: the surplus shows the caller the need for another page. The rows are read after the
        jobs, so no job is compared with a row older than the job.
        """
        due, now = list[str](), datetime.now(UTC)
        run_uids = sorted(run_uid for run_uid in jobs if run_uid > after)
        for start in range(0, len(run_uids), ROWS_AT_ONCE):
            page = {run_uid: jobs[run_uid] for run_uid in run_uids[start : start + ROWS_AT_ONCE]}
            due += rules.disputed(page, self.records.audited_by_uid(list(page)), now, self.patience)
            if len(due) > RUNS_IN_A_PAGE:
                break
        return due

    def _doubt_empty_cluster(self, kinds: Collection[FindingKind]) -> str | None:
        """Return why an empty cluster is not believed, or None: a wrong namespace looks empty, too.

        A recent open finding without an action shows jobs not ended by an audit.
        """
        since = datetime.now(UTC) - self.patience.empty
        overview = self.findings.overview(audits=0, findings=MOST_FINDINGS)
        recent = [item for item in overview.findings if item.closed_at is None and item.last_seen_at > since]
        vanished = [item for item in recent if item.kind in kinds and not item.acts]
        return EMPTY.format(len(vanished)) if vanished else None

    def _look_at(self, run_uids: Sequence[str], jobs: Jobs) -> PageOfLooks:
        """Look at runs until the time is up, at least at the first."""
        earlier_actions, page, began = self._earlier_actions(run_uids), PageOfLooks(), monotonic()
        for run_uid in run_uids:
            if page.looks and monotonic() - began > LONGEST_LOOKING:
                break
            page.looks += 1
            keys = {job.key for job in jobs[run_uid] if job.key}
            uids = self._uids_on_record(run_uid, sorted(task for task, _ in keys))
            look = self.cluster.look(run_uid, sorted(keys), uids=uids)
            if not look.complete:
                page.unknown.append(run_uid)
                continue
            action = earlier_actions.get(run_uid)
            needed = rules.steps(look, keys, acted=action is not None, requested=ASKED in (action or ""))
            row = self.records.audited_by_uid([run_uid]).get(run_uid)  # read after the look: the run may be open again
            if needed and (row is None or row.status.is_over):
                page.findings.append(self._finding(row, run_uid, jobs[run_uid], needed))
                page.needed[run_uid], page.uids[run_uid] = needed, uids
        return page

    def _uids_on_record(self, run_uid: str, tasks: Sequence[int]) -> Uids:
        """Return the uids of these tasks' jobs: a job with a uid on record is ours, even if its labels were edited."""
        row = self.records.audited_by_uid([run_uid]).get(run_uid)
        return uids_of(self.tasks.rows(row.run_id, tasks)) if row else NO_UIDS

    def _earlier_actions(self, run_uids: Sequence[str]) -> dict[str, str]:
        """Return earlier audits' last actions by run, only where the jobs have had time to end since."""
        subjects = [(kind, uid) for uid in run_uids for kind in (FindingKind.LEFTOVER_JOB, FindingKind.UNKNOWN_JOB)]
        before = datetime.now(UTC) - self.patience.insist
        return {
            run_uid: act.action or ""
            for (_, run_uid), act in self.findings.acted(subjects).items()
            if act.at and act.at <= before
        }

    def _finding(self, row: AuditedRun | None, run_uid: str, jobs: Sequence[ListedJob], needed: Needed) -> Finding:
        if row is None:
            return rules.unknown_job(run_uid, jobs, needed)
        attempts = self.records.attempts(row.run_id, [job.key[0] for job in jobs if job.key])
        return (
            rules.later_job(row, jobs, needed)
            if rules.is_older_than_jobs(row, jobs, attempts, self.patience)
            else rules.leftover(row, needed)
        )
