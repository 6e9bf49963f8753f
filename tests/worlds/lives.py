"""A life is the series of states that the objects of one job go through in the cluster."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from crawler_lifecycle.model.states import Intent
from tests.kit.clusters.kube import UID, Json

KEY = (0, 1)
OVER = ("Succeeded", "Failed")
MAIN = "crawl"


@dataclass(frozen=True)
class Moment:
    """The objects of a job at one moment."""

    job: Json | None
    pods: list[Json] = field(default_factory=list)

    def says(self, kind: str) -> bool:
        return any(item["type"] == kind for item in self._conditions)

    @property
    def remembers(self) -> bool:
        """Whether the Job itself says how its pod ended."""
        return any(item["type"] == "Failed" and item["reason"] == "PodFailurePolicy" for item in self._conditions)

    @property
    def phases(self) -> list[str]:
        return [item["status"]["phase"] for item in self.pods]

    @property
    def is_empty(self) -> bool:
        return self.job is None and not self.pods

    @property
    def has_no_pod(self) -> bool:
        return self.job is not None and not self.pods and not self._conditions

    @property
    def was_told(self) -> bool:
        """Whether an object shows that the program was told to end."""
        terminating = bool(self.job and self.job["status"].get("terminating"))
        disrupted = ("DisruptionTarget" in str(pod["status"].get("conditions")) for pod in self.pods)
        return terminating or any("deletionTimestamp" in pod["metadata"] for pod in self.pods) or any(disrupted)

    @property
    def shows_success(self) -> bool:
        """Whether a main container is shown that ended with 0."""
        return any(succeeded and code == 0 for succeeded, code in self.ends)

    @property
    def ends(self) -> Iterable[tuple[bool, int | None]]:
        """Yield the ends of main programs as `end_of` tells them."""
        return (end for pod in self.pods if (end := end_of(pod)))

    @property
    def _conditions(self) -> list[Json]:
        conditions: list[Json] = self.job["status"]["conditions"] if self.job else []
        return conditions


@dataclass(frozen=True)
class Life:
    moments: list[Moment]
    stop_at: int | None  # from this moment on the intent is STOP
    is_hopeless: bool = False
    was_told: bool = False  # to end, before it ended with 0
    is_crossed: bool = False  # it ended with 0 a second before its pod was deleted
    hangs_with: int | None = None  # the exit code of its main container, while another container never ends
    had_another_pod: bool = False  # its Job was suspended, and went on with a second pod
    is_replaced: bool = False  # a job of its name and of another uid is made after it
    skew: int = 0  # seconds that the clock of its node is ahead of the API server's

    def intent(self, now: int) -> Intent:
        """Return the intent at this moment. Half of the stops are forced a moment later."""
        if self.stop_at is None or now < self.stop_at:
            return Intent.RUN
        return Intent.FORCE if self.stop_at % 2 and now > self.stop_at else Intent.STOP

    @property
    def last(self) -> int:
        return len(self.moments) - 1

    @property
    def made_at(self) -> int:
        return next((number for number, moment in enumerate(self.moments) if moment.job), len(self.moments))


def end_of(pod: Json) -> tuple[bool, int | None] | None:
    """Return whether the main container of this pod succeeded, and its exit code. None: it has not ended."""
    phase, statuses = pod["status"]["phase"], pod["status"]["containerStatuses"] or []
    codes = [
        item["state"]["terminated"]["exitCode"]
        for item in statuses
        if "terminated" in item["state"] and item["name"] == MAIN
    ]
    code = codes[0] if codes else None
    if codes:
        return code == 0, code
    return (phase == "Succeeded", None) if phase in OVER else None


def is_own(there: object) -> bool:
    """Whether this object, if it is one, is the Job whose uid is on record."""
    return isinstance(there, dict) and isinstance(there.get("metadata"), dict) and there["metadata"].get("uid") == UID
