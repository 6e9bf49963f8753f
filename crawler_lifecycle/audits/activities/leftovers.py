"""Steps of the audit's part `jobs`: end the jobs found after the end of their run.

A job is asked to end, then killed by a later audit, and removed when its evidence is stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

from crawler_lifecycle.audits.rules.jobs import Step
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.clusters.ports import Cluster, Uids
from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.model.audits import Finding, FindingKind
from crawler_lifecycle.model.looks import JobKey
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.runs.activities.reconciliation import EVIDENCE_IN_A_PAGE
from crawler_lifecycle.runs.ports.records import Records
from crawler_lifecycle.runs.ports.runs import Tasks

# seconds for collecting evidence before removals, for a page of the audit; the further jobs stay for the next audit
LONGEST_COLLECTING = 200.0
JOBS_WITH_EVIDENCE = 20  # per run, because a single finding holds the log lines of all these jobs
ASKED_TO_END = "asked to end"  # these words in a finding's action show the next audit that the jobs were asked
NOT_ALLOWED = (
    "not removed: only `crawlctl audit --repair --remove-unknown-jobs` removes such jobs, and only if the worker has "
    "CRAWLER_AUDIT__REMOVE_UNKNOWN_JOBS=true"
)
NextSteps = Mapping[JobKey, Step]  # the next step by job; a job that needs no step has no key


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
