"""The cluster's jobs, against their runs."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic

from temporalio import activity

from crawler_lifecycle.activities.auditing import Ledger
from crawler_lifecycle.activities.leftovers import ASKED, Leftovers, Needed
from crawler_lifecycle.contract.audits import AuditPage, AuditStep, Finding, FindingKind
from crawler_lifecycle.domain.audit.jobs import (
    disputed,
    is_later,
    later_job,
    leftover,
    nameless_job,
    steps,
    unknown_job,
)
from crawler_lifecycle.domain.audit.subjects import AuditedRun, ListedJob, Patience
from crawler_lifecycle.ports import Cluster, Findings, Records, Tasks

RUNS_IN_A_PAGE = 50  # each is looked at, and its jobs may have to be ended
ROWS_AT_ONCE = 1000
LONGEST_LOOKING = 200.0  # seconds: of a slow cluster a page has fewer runs, and comes to its end all the same
MOST_KNOWN = 1000
EMPTY = "no job is listed, and lately those of {} runs were there that nobody has ended: is it another namespace?"
Jobs = Mapping[str, Sequence[ListedJob]]


@dataclass
class Listed:
    """All jobs there are, by run."""

    by_run: dict[str, list[ListedJob]] = field(default_factory=dict)
    nameless: list[ListedJob] = field(default_factory=list)
    count: int = 0


@dataclass(frozen=True)
class Found:
    """A run whose jobs nobody supervises, and what each of them needs."""

    finding: Finding
    needed: Needed


@dataclass(frozen=True)
class JobAudit:
    records: Records
    findings: Findings
    tasks: Tasks
    cluster: Cluster
    patience: Patience

    @activity.defn
    async def audit_jobs(self, step: AuditStep) -> AuditPage:
        """Ends and removes jobs whose runs are over; reports those of which nobody knows the run."""
        listed = await asyncio.to_thread(self._listed)
        if problem := None if listed.count else await asyncio.to_thread(self._doubt, step.part.kinds):
            return AuditPage(problem=problem)
        due = await asyncio.to_thread(self._due, listed.by_run, step.after or "")
        found, unknown, seen = await asyncio.to_thread(self._look_at, due[:RUNS_IN_A_PAGE], listed.by_run)
        ledger, needed = Ledger(step.audit, self.findings), {each.finding.subject: each.needed for each in found}
        await ledger.keep([(kind, run_uid) for run_uid in unknown for kind in step.part.kinds])
        leftovers = Leftovers(self.records, self.tasks, self.cluster, step.audit.remove_unknown_jobs)

        async def act(finding: Finding) -> Finding:
            if finding.subject not in needed:  # a job without a name for its run is reported only
                return finding
            return await asyncio.to_thread(leftovers.end, finding, needed[finding.subject])

        told = [each.finding for each in found]
        is_first = step.after is None
        told += [nameless_job(job) for job in listed.nameless] if is_first else []
        settled = await ledger.settle(told, act, examined=listed.count if is_first else 0, unknown=len(unknown))
        rest = due[seen - 1] if seen < len(due) else None
        return settled.model_copy(update={"rest": rest})

    def _listed(self) -> Listed:
        """Whole, or an error: of a list that breaks off nobody judges anything."""
        listed, seen = Listed(), set[str]()
        for page in self.cluster.inventory():
            for job in page:
                if job.name in seen:
                    continue
                seen.add(job.name)
                if job.run_uid is None or job.key is None:
                    listed.nameless.append(job)
                else:
                    listed.by_run.setdefault(job.run_uid, []).append(job)
        listed.count = len(seen)
        return listed

    def _due(self, jobs: Jobs, after: str) -> list[str]:
        """Of the runs after this one those whose jobs need a look, for a page, and at least one more if there is one.

        The rows are read after the jobs: a job that is made meanwhile, and its row, are not among them."""
        due, now, later = list[str](), datetime.now(UTC), sorted(run_uid for run_uid in jobs if run_uid > after)
        for start in range(0, len(later), ROWS_AT_ONCE):
            page = {run_uid: jobs[run_uid] for run_uid in later[start : start + ROWS_AT_ONCE]}
            due += disputed(page, self.records.audited_by_uid(list(page)), now, self.patience)
            if len(due) > RUNS_IN_A_PAGE:
                break
        return due

    def _doubt(self, kinds: Collection[FindingKind]) -> str | None:
        """Why a list without any job is not believed: another namespace gives it, too."""
        since, known = datetime.now(UTC) - self.patience.empty, self.findings.overview(audits=0, findings=MOST_KNOWN)
        lately = [each for each in known.findings if each.closed_at is None and each.last_seen_at > since]
        lost = [each for each in lately if each.kind in kinds and not each.acts]
        return EMPTY.format(len(lost)) if lost else None

    def _look_at(self, run_uids: Sequence[str], jobs: Jobs) -> tuple[list[Found], list[str], int]:
        """What was found, the runs of which nothing can be said, and how many were looked at before the time was up."""
        subjects = [(kind, uid) for uid in run_uids for kind in (FindingKind.LEFTOVER_JOB, FindingKind.UNKNOWN_JOB)]
        acted, now = self.findings.acted(subjects), datetime.now(UTC)
        before = {uid: done for (_, uid), done in acted.items() if done.at and now - done.at >= self.patience.insist}
        found, unknown, began = list[Found](), list[str](), monotonic()
        for seen, run_uid in enumerate(run_uids):
            if seen and monotonic() - began > LONGEST_LOOKING:
                return found, unknown, seen
            keys = {job.key for job in jobs[run_uid] if job.key}
            look = self.cluster.look(run_uid, sorted(keys))
            if not look.complete:
                unknown.append(run_uid)
                continue
            done = before.get(run_uid)
            needed = steps(look, keys, acted=done is not None, asked=done is not None and ASKED in (done.action or ""))
            row = self.records.audited_by_uid([run_uid]).get(run_uid)  # again, after the look
            if needed and (row is None or row.status.is_over):
                found.append(Found(self._judged(row, run_uid, jobs[run_uid], needed), needed))
        return found, unknown, len(run_uids)

    def _judged(self, row: AuditedRun | None, run_uid: str, jobs: Sequence[ListedJob], needed: Needed) -> Finding:
        if row is None:
            return unknown_job(run_uid, jobs, needed)
        attempts = self.records.attempts(row.run_id, [job.key[0] for job in jobs if job.key])
        return later_job(row, jobs, needed) if is_later(row, jobs, attempts, self.patience) else leftover(row, needed)
