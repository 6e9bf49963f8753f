"""Generated ends, and looks at them: an end depends on whether a look saw what decides it, and on nothing else.

The cluster forgets: a pod that somebody deleted is gone once its Job has counted its end. So a story has two ends, one
for every set of looks that saw a moment which shows what happened, and one for all other sets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from crawler_lifecycle.model.looks import TaskRow, uids_of
from crawler_lifecycle.model.naming import job_name
from crawler_lifecycle.model.reasons import OF_INFRASTRUCTURE, of_exit_code
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.runs.rules.verdict import verdict
from tests.kit.clusters.kube import LATER, NAMESPACE, RUN, UID, Json, condition, ended, job, pod, running
from tests.kit.data.rows import NOW, applied, row
from tests.worlds.disturbances import CALM, ROUGH, Disturbance
from tests.worlds.lives import KEY, Life, Moment
from tests.worlds.looks import Span, look_at
from tests.worlds.stories import FURTHEST_APART, seconds_after

INFRASTRUCTURE = "infrastructure"  # any of its reasons
KILLED = (137, 143)
LEFT_OUT = (0, *KILLED)  # codes that the Job does not remember
EVICTING = {"EvictionByEvictionAPI": "drained", "PreemptionByScheduler": "preempted", "DeletionByPodGC": "node_deleted"}
OF_KUBELET = {"Evicted": "evicted", "Terminated": "node_shutdown", "Preempting": "preempted"}
LOOKS_AT_AN_END, LOOKS_AT_THE_LAST = 5, 2


@dataclass(frozen=True)
class End:
    status: TaskStatus
    reason: str | None = None
    exit_code: int | None = None

    def fits(self, current: TaskRow) -> bool:
        is_reason = current.reason in OF_INFRASTRUCTURE if self.reason == INFRASTRUCTURE else None
        is_code = self.reason == INFRASTRUCTURE or current.exit_code == self.exit_code
        return current.status is self.status and is_code and (is_reason or current.reason == self.reason)


DISRUPTED = End(TaskStatus.FAILED, INFRASTRUCTURE)


@dataclass(frozen=True)
class Story:
    moments: list[Moment]
    showing: frozenset[int]  # the moments that show what decides
    seen: End
    unseen: End


def play(random: Random) -> tuple[int, TaskRow]:
    """Look at a generated end when it pleases. Return how many looks were made, and the row at the end."""
    story = random.choice(STORIES)(random)
    life, last = Life(story.moments, stop_at=None), len(story.moments) - 1
    rough = CALM if random.random() < 0.8 else ROUGH
    numbers = sorted(random.randint(0, last) for _ in range(random.randint(0, LOOKS_AT_AN_END)))
    current = row()
    for number in numbers:
        current = _looked(life, number, random, rough, current)
    for _ in range(LOOKS_AT_THE_LAST):
        current = _looked(life, last, random, CALM, current)
    is_shown = bool(story.showing & {*numbers, last})
    ends = (story.seen if is_shown else story.unseen,) if rough is CALM else (story.seen, story.unseen)
    assert any(end.fits(current) for end in ends), (story, numbers, current)
    return len(numbers) + LOOKS_AT_THE_LAST, current


def _looked(life: Life, number: int, random: Random, rough: Disturbance, current: TaskRow) -> TaskRow:
    look = look_at(life, Span(number, number), random, rough, uids_of([current]))
    return applied(current, verdict(current, look, Intent.RUN, NOW))


def _its_own(code: int) -> End:
    return End(TaskStatus.FAILED, of_exit_code(code), code) if code else End(TaskStatus.SUCCEEDED, None, 0)


def _any_code(random: Random) -> int:
    return random.choice([0, 0, 1, 3, 137, 143, 255, random.randint(-(2**31), 2**31 - 1)])


def _outlived(random: Random) -> Story:
    """The main container ends. Its sidecar lives on until somebody drains, deletes or evicts the pod, or it fails."""
    code, skew = _any_code(random), random.randint(-FURTHEST_APART, FURTHEST_APART)
    gap = random.choice([1, 20, 59, 121, 600, 3600])  # seconds until the sidecar is ended
    how = random.choice([*EVICTING, *OF_KUBELET, "deleted", "fails", "has no memory"])
    main = ended(code)
    main["state"]["terminated"]["finishedAt"] = seconds_after(LATER, skew)
    hangs = pod("Running", main, running("proxy"))
    # the sidecar's own end is dated by its node, as the main container's
    proxy = ended(137 if how == "has no memory" else 1, "OOMKilled" if how == "has no memory" else "Error", "proxy")
    proxy["state"]["terminated"]["finishedAt"] = seconds_after(LATER, skew + gap + 5)
    is_deleted, conditions = how == "deleted" or how in EVICTING, list[Json]()
    kubelet: Json = {}
    if how in EVICTING:
        conditions = [condition("DisruptionTarget", how, at=seconds_after(LATER, gap))]
    if how in OF_KUBELET:
        conditions = [condition("DisruptionTarget", "TerminationByKubelet", at=seconds_after(LATER, skew + gap))]
        kubelet = {"reason": how}
    ending = pod("Running", main, running("proxy"), conditions=conditions, **kubelet)
    over = pod("Failed", main, proxy, conditions=conditions, **kubelet)
    if is_deleted:
        ending, over = (_told(there, seconds_after(LATER, gap)) for there in (ending, over))
    counted: Json = {"terminating": 1} if is_deleted else {"active": 1, "ready": 0}
    moments = [
        Moment(job(active=1, ready=1), [pod("Running", running(), running("proxy"))]),
        Moment(job(active=1, ready=0), [hangs]),
        Moment(job(**counted), [ending] if how in EVICTING or how in OF_KUBELET or is_deleted else [hangs]),
        Moment(job(**counted), [over]),
        Moment(_failed(code, is_disrupted=bool(conditions)), [over]),
    ]
    has_other_end = bool(conditions) or code in LEFT_OUT
    if random.random() < 0.6:
        moments.append(Moment(_failed(code, is_disrupted=bool(conditions))))
    tells_alone = not is_deleted or gap - skew > FURTHEST_APART
    showing = {1, 2, 3, 4} if tells_alone else {1}
    unseen = DISRUPTED if has_other_end else _its_own(code)
    return _with_sidecar(Story(moments, frozenset(showing), _its_own(code), unseen))


def _told_to_end(random: Random) -> Story:
    """The program is told to end by somebody, and obeys, or has to be killed, or fails in its grace."""
    code, skew = _any_code(random), random.randint(-FURTHEST_APART, FURTHEST_APART)
    by = random.choice([*EVICTING, None])
    conditions = [condition("DisruptionTarget", by, at=LATER)] if by else []
    main = ended(code)
    main["state"]["terminated"]["finishedAt"] = seconds_after(LATER, skew + random.randint(0, 29))
    over = pod("Failed" if code else "Succeeded", main, conditions=conditions)
    over = _told(over, LATER, grace=random.choice([0, 30]))
    complete = job(0, 1, condition("Complete", at=seconds_after(LATER, 40)), succeeded=1)
    end = _failed(code, is_disrupted=by is not None) if code else complete
    moments = [
        Moment(job(active=1, ready=1), [pod("Running", running())]),
        Moment(job(terminating=1), [_told(pod("Running", running(), conditions=conditions), LATER)]),
        Moment(job(terminating=1), [over]),
        Moment(end, [over]),
    ]
    if random.random() < 0.6:
        moments.append(Moment(end))
    seen = DISRUPTED if by or code in LEFT_OUT else _its_own(code)
    return Story(moments, frozenset({1, 2, 3}), seen, seen if code else _its_own(0))


def _of_its_own(random: Random) -> Story:
    """The program ends, or its node reboots; a pod that has ended may be collected before anybody has looked."""
    code = _any_code(random) or 1
    is_lost = code == 255 and random.random() < 0.8
    over = pod("Failed", ended(code, "Unknown" if is_lost else "Error"))
    end = _failed(code, is_disrupted=False)
    moments = [
        Moment(job(active=1, ready=1), [pod("Running", running())]),
        Moment(job(active=1, ready=0), [over]),
        Moment(end, [over]),
        *([Moment(end)] if random.random() < 0.4 else []),
    ]
    unseen = DISRUPTED if code in KILLED else _its_own(code)
    return Story(moments, frozenset({1, 2}), DISRUPTED if is_lost else _its_own(code), unseen)


def _with_sidecar(story: Story) -> Story:
    """Name the main container: a list of two containers does not."""
    moments = [replace(moment, pods=[_named(there) for there in moment.pods]) for moment in story.moments]
    return replace(story, moments=moments)


def _named(there: Json) -> Json:
    return {**there, "spec": {**there["spec"], "containers": [{"name": "crawl"}, {"name": "proxy"}]}}


def _told(there: Json, at: str, grace: int = 30) -> Json:
    deletion: dict[str, Any] = {
        "deletionTimestamp": seconds_after(at, grace),
        "deletionGracePeriodSeconds": grace,
    }
    return {**there, "metadata": {**there["metadata"], **deletion}}


def _failed(code: int, *, is_disrupted: bool) -> Json:
    """Return the Job as it remembers the end of its pod, by our failure policy or else by its limit."""
    name = f"{NAMESPACE}/{job_name(RUN, *KEY)}-x"
    said, reason = "Job has reached the specified backoff limit", "BackoffLimitExceeded"
    if is_disrupted:
        said = f"Pod {name} has condition DisruptionTarget matching FailJob rule at index 0"
        reason = "PodFailurePolicy"
    elif code not in LEFT_OUT:
        said = f"Container crawl for pod {name} failed with exit code {code} matching FailJob rule at index 1"
        reason = "PodFailurePolicy"
    failed = job(0, 1, condition("Failed", reason, at=seconds_after(LATER, 4000), message=said), uid=UID, failed=1)
    return {**failed, "spec": {**failed.get("spec", {}), "podFailurePolicy": {"rules": []}}}


STORIES: Sequence[Callable[[Random], Story]] = (_outlived, _outlived, _told_to_end, _of_its_own)
