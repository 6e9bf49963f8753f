"""Who makes jobs, shows them and ends them?"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from crawler_lifecycle.contract.deployment import Crawler, Deployment, DeploymentRequest
from crawler_lifecycle.contract.steps import TaskEvidence
from crawler_lifecycle.domain.audit import ListedJob
from crawler_lifecycle.domain.looks import Look

Uids = Mapping[tuple[int, int], str]  # the uid on record of the job of (task, attempt)
NO_UIDS: Uids = {}


@dataclass(frozen=True, slots=True)
class LogChunk:
    text: str
    offset: int
    ended: bool
    read: int = 0  # bytes that had to be fetched for it, where that is more than the text


class Cluster(Protocol):
    """Jobs. Only those with this installation's label are read, adopted or ended, and those with the uid on record.

    `uids`: such uids. Somebody may have edited a job's labels: with its uid the job is found all the same."""

    def deploy(self, request: DeploymentRequest) -> Deployment:
        """One job per key for ever; Conflict if the key was used for something else."""

    def look(
        self,
        run_uid: str,
        watched: Collection[tuple[int, int]] = (),
        tasks: Collection[int] | None = None,
        *,
        uids: Uids = NO_UIDS,
    ) -> Look:
        """All jobs of the run at once. What could not be seen makes the look incomplete; it does not raise.

        `watched`: (task, attempt) of those that are believed alive, where details and absence matter.
        `tasks`: only their jobs, each attempt of them."""

    def inventory(self) -> Iterator[Sequence[ListedJob]]:
        """All jobs of the installation that live or take room, in pages. TemporaryError if one cannot be had: then
        those before it are no list. A job may be listed more than once."""

    def evidence(self, run_uid: str, jobs: Sequence[tuple[int, int]], *, hurried: bool = False) -> list[TaskEvidence]:
        """Of these (task, attempt); a job without evidence is left out. `hurried`: only what can be had within
        seconds."""

    def stop(
        self, run_uid: str, jobs: Sequence[tuple[int, int]], *, uids: Uids = NO_UIDS, hurried: bool = False
    ) -> None:
        """Ask these jobs to end. A job that is gone is success. `hurried`: they are killed next."""

    def kill(self, run_uid: str, jobs: Sequence[tuple[int, int]], *, uids: Uids = NO_UIDS) -> None:
        """End these jobs without asking. A job that is gone is success."""

    def unreached(self, run_uid: str, jobs: Sequence[tuple[int, int]]) -> Mapping[tuple[int, int], str]:
        """Of these, those that live where nobody reaches them, each with its node: ended by force, they may run on."""

    def remove(self, run_uid: str, jobs: Sequence[tuple[int, int]], *, uids: Uids = NO_UIDS) -> int:
        """These jobs, and earlier attempts of their tasks, leave the cluster; their logs go to the run's files first.

        Answers how many have to stay for now: a late copy of their request could make them anew. One that has not
        ended is left alone and does not count."""

    def log(self, run_uid: str, task: int, attempt: int, offset: int) -> LogChunk:
        """What the task printed from this byte on (negative: that many bytes from the end)."""

    def changes(self) -> Iterator[set[str]]:
        """The run_uids whose jobs changed, as it happens, for ever (an empty set now and then); may miss any.

        TemporaryError, again and again, while they cannot be followed; then it goes on."""

    def check(self) -> str:
        """One line about the cluster, or an error that says what to mend."""


class Deployer(Protocol):
    """The scheduler service, ours or the company's."""

    def crawler(self, name: str) -> Crawler:
        """The catalogue's entry; BadInput for `crawler` if there is none."""

    def crawler_names(self) -> list[str]:
        """The names of the catalogue."""

    def deploy(self, request: DeploymentRequest) -> Deployment:
        """Refused if it never will be, TemporaryError if it is not known whether it was."""

    def check(self) -> str: ...
