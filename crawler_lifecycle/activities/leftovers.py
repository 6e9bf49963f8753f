"""Jobs that nobody supervises are asked to end, made to end, or removed once what became of them is on record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

from crawler_lifecycle.activities.reconciliation import EVIDENCE_IN_A_PAGE
from crawler_lifecycle.contract.audits import Finding, FindingKind
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.domain.audit.jobs import Step
from crawler_lifecycle.domain.audit.subjects import Key
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.ports import Cluster, Records, Tasks

LONGEST_ASKING = 200.0  # seconds: what is not known of jobs to be removed by then, the next audit asks for
JOBS_WITH_EVIDENCE = 20
ASKED = "asked to end"
NOT_TOLD = "not removed: only `crawlctl audit --repair --remove-unknown-jobs`, or the setting, removes such jobs"
Needed = Mapping[Key, Step]


@dataclass
class Leftovers:
    """Of one page of an audit, whose time to ask begins now."""

    records: Records
    tasks: Tasks
    cluster: Cluster
    remove_unknown: bool
    _asks_until: float = field(default_factory=lambda: monotonic() + LONGEST_ASKING, init=False)

    def end(self, finding: Finding, needed: Needed) -> Finding:
        if finding.kind is FindingKind.UNKNOWN_JOB and not self.remove_unknown:
            return finding.model_copy(update={"problem": NOT_TOLD})
        return self._act(finding.model_copy(update={"evidence": self._evidence(finding, needed)}), needed)

    def _evidence(self, finding: Finding, needed: Needed) -> str | None:
        """What they printed last, of those that are ended by us: nobody asks for it afterwards."""
        keys = [key for key, step in sorted(needed.items()) if step is not Step.REMOVE][:JOBS_WITH_EVIDENCE]
        try:
            seen = self.cluster.evidence(finding.run_uid or "", keys) if keys else []
        except LifecycleError as error:  # what runs on must end all the same
            return f"no evidence: {error.message}"
        told = [f"task {each.task}: {each.message or ''}\n{each.log_tail}".strip() for each in seen]
        return "\n".join(told) or None

    def _act(self, finding: Finding, needed: Needed) -> Finding:
        """What is in the way of one step, or of one run, is in the way of no other."""
        run_uid, done, problems = finding.run_uid or "", list[str](), list[str]()
        for step, do in ((Step.STOP, self._stop), (Step.KILL, self._kill), (Step.REMOVE, self._remove)):
            if keys := sorted(key for key, each in needed.items() if each is step):
                try:
                    done.append(do(run_uid, keys))
                except LifecycleError as error:
                    problems.append(error.message)
        return finding.model_copy(update={"action": "; ".join(done) or None, "problem": "; ".join(problems) or None})

    def _stop(self, run_uid: str, keys: Sequence[Key]) -> str:
        self.cluster.stop(run_uid, keys)
        return f"{counted(len(keys), 'job')} {ASKED}"

    def _kill(self, run_uid: str, keys: Sequence[Key]) -> str:
        self.cluster.kill(run_uid, keys)
        return f"{counted(len(keys), 'job')} made to end"

    def _remove(self, run_uid: str, keys: Sequence[Key]) -> str:
        owed, problem = self._unexplained(run_uid, keys)
        explained = sorted(set(keys).difference(owed))
        if not explained:
            raise TemporaryError(problem)
        left = self.cluster.remove(run_uid, explained)
        stay = f", {left} have to stay for now" if left else ""
        unexplained = f", {len(owed)} stay until the cluster tells what became of them: {problem}" if owed else ""
        return f"{counted(len(explained) - left, 'job')} removed, with logs kept{stay}{unexplained}"

    def _unexplained(self, run_uid: str, keys: Sequence[Key]) -> tuple[Sequence[Key], str]:
        """Those of which it cannot be had, and why. Their supervisor may have ended before a busy cluster told it."""
        row = self.records.audited_by_uid([run_uid]).get(run_uid)
        owed = sorted(set(self.tasks.unexplained(row.run_id)).intersection(keys)) if row else []
        while row and owed:
            if monotonic() > self._asks_until:
                return owed, "others took too long"
            try:
                evidence = self.cluster.evidence(run_uid, owed[:EVIDENCE_IN_A_PAGE])
            except TemporaryError as error:
                return owed, error.message
            self.tasks.reconcile(RunRef(run_id=row.run_id, run_uid=run_uid, epoch=row.epoch), evidence)
            owed = owed[EVIDENCE_IN_A_PAGE:]
        return [], ""
