"""End the jobs that outlived their run: ask, then kill, and remove a job when its evidence is on record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

from crawler_lifecycle.activities.reconciliation import EVIDENCE_IN_A_PAGE
from crawler_lifecycle.contract.audits import Finding, FindingKind
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.domain.audit.jobs import Step
from crawler_lifecycle.domain.looks import JobKey
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.ports import Cluster, Records, Tasks, Uids

LONGEST_COLLECTING = 200.0  # seconds of a page for evidence before removals; the next audit collects the rest
JOBS_WITH_EVIDENCE = 20  # per run: a single finding holds their log lines
ASKED = "asked to end"
NOT_ALLOWED = "not removed: only `crawlctl audit --repair --remove-unknown-jobs`, or the setting, removes such jobs"
Needed = Mapping[JobKey, Step]  # the next step by job; a job without a step is left out


@dataclass
class Leftovers:
    """Unsupervised jobs in a page of an audit. The time limit for evidence starts with the object."""

    records: Records
    tasks: Tasks
    cluster: Cluster
    remove_unknown: bool
    _collects_until: float = field(default_factory=lambda: monotonic() + LONGEST_COLLECTING, init=False)

    def end(self, finding: Finding, needed: Needed, uids: Uids) -> Finding:
        if finding.kind is FindingKind.UNKNOWN_JOB and not self.remove_unknown:
            return finding.model_copy(update={"problem": NOT_ALLOWED})
        return self._act(finding.model_copy(update={"evidence": self._evidence(finding, needed)}), needed, uids)

    def _evidence(self, finding: Finding, needed: Needed) -> str | None:
        """Return the last log lines before the audit ends the jobs: no later step collects these lines."""
        keys = [key for key, step in sorted(needed.items()) if step is not Step.REMOVE][:JOBS_WITH_EVIDENCE]
        try:
            evidence = self.cluster.evidence(finding.run_uid or "", keys) if keys else []
        except LifecycleError as error:  # living jobs must end all the same
            return f"no evidence: {error.message}"
        lines = [f"task {item.task}: {item.message or ''}\n{item.log_tail}".strip() for item in evidence]
        return "\n".join(lines) or None

    def _act(self, finding: Finding, needed: Needed, uids: Uids) -> Finding:
        """Take the next step with every job. A step that fails does not prevent the next step."""
        run_uid, done, problems = finding.run_uid or "", list[str](), list[str]()
        for step, action in ((Step.STOP, self._stop), (Step.KILL, self._kill), (Step.REMOVE, self._remove)):
            keys = sorted(key for key, next_step in needed.items() if next_step is step)
            if not keys:
                continue
            try:
                done.append(action(run_uid, keys, uids))
            except LifecycleError as error:
                problems.append(error.message)
        return finding.model_copy(update={"action": "; ".join(done) or None, "problem": "; ".join(problems) or None})

    def _stop(self, run_uid: str, keys: Sequence[JobKey], uids: Uids) -> str:
        self.cluster.stop(run_uid, keys, uids=uids)
        return f"{counted(len(keys), 'job')} {ASKED}"

    def _kill(self, run_uid: str, keys: Sequence[JobKey], uids: Uids) -> str:
        self.cluster.kill(run_uid, keys, uids=uids)
        return f"{counted(len(keys), 'job')} made to end"

    def _remove(self, run_uid: str, keys: Sequence[JobKey], uids: Uids) -> str:
        unexplained, problem = self._collect_missing_evidence(run_uid, keys)
        explained = sorted(set(keys).difference(unexplained))
        if not explained:
            raise TemporaryError(problem)
        staying = self.cluster.remove(run_uid, explained, uids=uids)
        action = f"{counted(len(explained) - staying, 'job')} removed, with logs kept"
        if staying:
            action += f", {staying} have to stay for now"
        if unexplained:
            action += f", {len(unexplained)} stay until the cluster tells what became of them: {problem}"
        return action

    def _collect_missing_evidence(self, run_uid: str, keys: Sequence[JobKey]) -> tuple[Sequence[JobKey], str]:
        """Return the jobs without evidence for now, and the reason.

        Evidence is missing where a supervisor ended before a busy cluster delivered any.
        """
        row = self.records.audited_by_uid([run_uid]).get(run_uid)
        if row is None:  # an unknown run has no rows to hold evidence; the removal still keeps its logs
            return [], ""
        missing = sorted(set(self.tasks.unexplained(row.run_id)).intersection(keys))
        while missing:
            if monotonic() > self._collects_until:
                return missing, "others took too long"
            try:
                evidence = self.cluster.evidence(run_uid, missing[:EVIDENCE_IN_A_PAGE])
            except TemporaryError as error:
                return missing, error.message
            self.tasks.reconcile(RunRef(run_id=row.run_id, run_uid=run_uid, epoch=row.epoch), evidence)
            missing = missing[EVIDENCE_IN_A_PAGE:]
        return [], ""
