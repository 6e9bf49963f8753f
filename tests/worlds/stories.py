"""Stories of lives: from before a Job is made to a moment after its objects may be gone."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Any

from crawler_lifecycle.model.naming import job_name
from tests.kit.clusters.kube import (
    LATER,
    NAMESPACE,
    RUN,
    SCHEDULED,
    Json,
    condition,
    deleted,
    ended,
    job,
    pod,
    running,
    waiting,
)
from tests.worlds.lives import KEY, OVER, Life, Moment, end_of

DAYS_LATER = "2026-11-27T09:00:00Z"
A_MOMENT_LATER = "2026-11-20T09:00:01Z"
TOLD_AT = "2026-11-20T08:59:58Z"  # before it ended, with 0
GRACE = 30
FURTHEST_APART = 60  # seconds between the clock of a node and the API server's
RUNS = Moment(job(active=1, ready=1), [pod("Running", running())])


def a_life(random: Random) -> Life:
    moments = [Moment(None), Moment(job(started=None)), Moment(job())]
    if random.random() < 0.2:
        moments.insert(2, Moment(job(0, 1, condition("Suspended"), started=None)))
    moments += _start(random)
    end = random.choice(ENDS)
    if end == "image_pull":
        del moments[3:]  # no pod of it was ever seen running
    before = len(moments)
    moments += _end(end, random, moments[-1])
    cut = len(moments) if random.random() < 0.7 else random.randint(2, len(moments))
    stop_at = random.randint(0, cut) if random.random() < 0.4 else None
    if end in ("deleted", "stopped in order", "crossed") and random.random() < 0.7:
        stop_at = random.randint(0, before)
    skew = random.choice([0, random.randint(-FURTHEST_APART, FURTHEST_APART)])
    _set_the_nodes_clock(moments, skew)
    return Life(
        moments[:cut],
        stop_at,
        is_hopeless=end == "image_pull" and cut == len(moments),
        was_told=end in ("told", "stopped in order"),
        is_crossed=end == "crossed",
        hangs_with=_code_of_what_hangs(moments[cut - 1]) if end == "hangs" else None,
        had_another_pod=end == "goes on again",
        is_replaced=end == "replaced",
        skew=skew,
    )


def _end(end: str, random: Random, before: Moment) -> list[Moment]:
    if end in ("succeeds", "fails"):
        moments = _completes() if end == "succeeds" else _fails(random)
        return moments + _is_cleaned_up(random, moments[-1])
    if end == "told":
        moments = _is_told(random)
        return [RUNS, *moments, *_is_cleaned_up(random, moments[-1])]
    if end == "stopped in order":
        return [RUNS, *_is_stopped_in_order(random)]
    if end == "goes on again":
        return [RUNS, *_is_suspended(), *_completes()]
    if end == "image_pull":
        stuck = pod("Pending", waiting("ImagePullBackOff"), conditions=[SCHEDULED])
        return [Moment(job(active=1), [stuck])]
    if end == "deleted":
        return _is_deleted(random, before)
    if end == "replaced":
        return [RUNS, *_is_replaced(random)]
    return STORIES[end](random) if end in STORIES else []


def seconds_after(at: str, seconds: int) -> str:
    return (datetime.fromisoformat(at) + timedelta(seconds=seconds)).isoformat()


def _set_the_nodes_clock(moments: Iterable[Moment], skew: int) -> None:
    """Date every end by the node, whose clock is not the API server's, which dates deletions."""
    if not skew:
        return
    ends: dict[int, Json] = {}
    for moment in moments:
        for there in moment.pods:
            for status in there["status"].get("containerStatuses") or []:
                if end := status["state"].get("terminated"):
                    ends[id(end)] = end  # one object may be part of several moments
    for end in ends.values():
        end["finishedAt"] = seconds_after(end["finishedAt"], skew)


def _start(random: Random) -> list[Moment]:
    unscheduled = pod("Pending", conditions=[condition("PodScheduled", "Unschedulable", "False")])
    creating = pod("Pending", waiting("ContainerCreating"), conditions=[SCHEDULED])
    init = random.choice([running("init"), waiting("PodInitializing", "init"), ended(0, "Completed", "init")])
    initializing = pod(
        "Pending", waiting("PodInitializing"), conditions=[SCHEDULED], initContainerStatuses=[init, running("proxy")]
    )
    moments = [
        Moment(job(active=1), [unscheduled]),
        Moment(job(active=1, ready=0), [initializing if random.random() < 0.3 else creating]),
        Moment(job(active=1, ready=0), [pod("Running", running())]),
        Moment(job(active=1, ready=1), [pod("Running", running())]),
        Moment(job(active=1, ready=0), [pod("Unknown", running())]),
    ]
    return moments[: random.randint(1, len(moments))]


def _hangs(random: Random) -> list[Moment]:
    """The main container ends. A sidecar runs on for ever, or waits for an image that cannot be pulled."""
    code = random.choice([0, 0, 3, 137])
    cannot_start = random.random() < 0.5
    beside = waiting("ImagePullBackOff", "proxy") if cannot_start else running("proxy")
    phase = "Pending" if cannot_start else "Running"
    alive = pod(phase, running(), beside, conditions=[SCHEDULED])
    done = pod(phase, ended(code), beside, conditions=[SCHEDULED])
    moments = [Moment(job(active=1, ready=0), [alive]), Moment(job(active=1, ready=0), [done])]
    target, failed = (condition(kind, "DeadlineExceeded", at=DAYS_LATER) for kind in ("FailureTarget", "Failed"))
    late = deleted(done, DAYS_LATER)
    late["metadata"]["deletionGracePeriodSeconds"] = GRACE
    ends = [
        [],
        [Moment(job(0, 1, target, terminating=1), [late]), Moment(job(0, 1, target, failed))],
        [Moment(None)],
    ]
    return moments + random.choice(ends)


def _code_of_what_hangs(last: Moment) -> int | None:
    if last.job is None or last.says("FailureTarget") or len(last.pods) != 1:
        return None
    end = end_of(last.pods[0])
    return end[1] if end else None


def _is_replaced(random: Random) -> list[Moment]:
    """The Job is gone, and a person makes another Job of its name, with its labels."""
    theirs = job(0, 1, condition(random.choice(["Complete", "Failed"])), uid="another-uid")
    left = pod(random.choice(OVER), ended(random.choice([0, 3])), uid="another-uid")
    return [Moment(None), Moment(theirs, [left])]


def _completes() -> list[Moment]:
    over = [pod("Succeeded", ended(0, "Completed"))]
    met, complete = condition("SuccessCriteriaMet"), condition("Complete", at=LATER)
    return [
        Moment(job(active=1), over),
        Moment(job(), over),
        Moment(job(succeeded=1), over),
        Moment(job(0, 1, met, succeeded=1), over),
        Moment(job(0, 1, met, complete, succeeded=1, completionTime=LATER), over),
    ]


def _fails(random: Random) -> list[Moment]:
    over = [_failed_pod(random)]
    said = _said_of_a_failure(random)
    target, failed = condition("FailureTarget", **said), condition("Failed", at=LATER, **said)
    left = over if random.random() < 0.5 else []  # a pod that somebody deleted is gone once it is counted
    return [
        Moment(job(active=1), over),
        Moment(job(failed=1), over),
        Moment(job(0, 1, target, failed=1), over),
        Moment(job(0, 1, target, failed=1), left),
        Moment(job(0, 1, target, failed, failed=1), left),
    ]


def _said_of_a_failure(random: Random) -> dict[str, str]:
    """Return words of the failure policy or, where no rule fits, of the Job's limit."""
    name = f"{NAMESPACE}/{job_name(RUN, *KEY)}-x"
    return random.choice(
        [
            {"reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"},
            {
                "reason": "PodFailurePolicy",
                "message": f"Pod {name} has condition DisruptionTarget matching FailJob rule at index 0",
            },
            {
                "reason": "PodFailurePolicy",
                "message": f"Container crawl for pod {name} failed with exit code {random.choice([1, 137, 143])}"
                " matching FailJob rule at index 1",
            },
        ]
    )


def _failed_pod(random: Random) -> Json:
    return random.choice(
        [
            pod("Failed", ended(random.choice([1, 2, 127, 137, 143, 255]))),
            pod("Failed", ended(137, "OOMKilled")),
            pod("Failed", waiting("PodInitializing"), initContainerStatuses=[ended(2, name="init")]),
            pod("Failed", reason="Evicted", containerStatuses=None),
            pod("Failed", ended(0, "Completed")),
            pod("Failed", conditions=[condition("DisruptionTarget", "DeletionByPodGC")]),
        ]
    )


def _exceeds_its_deadline() -> list[Moment]:
    target = condition("FailureTarget", "DeadlineExceeded")
    failed = condition("Failed", "DeadlineExceeded", at=LATER)
    leaving = deleted(pod("Running", running()))
    return [Moment(job(0, 1, target, terminating=1), [leaving]), Moment(job(0, 1, target, failed))]


def _is_deleted(random: Random, last: Moment) -> list[Moment]:
    """A stop of ours or a person deletes the Job in the foreground: its pods go first."""
    leaving = deleted(pod("Running", running()))
    fallen = deleted(pod("Failed", ended(143)))
    failed = condition("Failed", at=LATER, **_said_of_a_failure(random))
    moments = [
        Moment(deleted(job(active=1)), last.pods),
        Moment(deleted(job(terminating=1)), [leaving]),
        Moment(deleted(job(failed=1)), [fallen]),
        Moment(deleted(job(0, 1, failed, failed=1)), [fallen]),
        Moment(None, [leaving]),
        Moment(None, [fallen]),
    ]
    chosen = sorted(random.sample(range(len(moments)), random.randint(1, len(moments))))
    if random.random() < 0.5:
        chosen = [item for item in chosen if item not in (3, 4)]  # deleted without ever having failed
    return [*(moments[item] for item in chosen if not (item == 4 and {2, 3} & set(chosen))), Moment(None)]


def _is_told(random: Random) -> list[Moment]:
    """The pod is drained, preempted or deleted by hand and ends in order. The Job does not say why."""
    by = random.choice(["EvictionByEvictionAPI", "PreemptionByScheduler", "BananaByMonkeys", None])
    conditions = [condition("DisruptionTarget", by, at=TOLD_AT)] if by else []
    leaving = told_pod(pod("Running", running(), conditions=conditions))
    over = _told_pod_that_ended(random, pod("Succeeded", ended(0, "Completed"), conditions=conditions))
    left = [over] if random.random() < 0.5 else []
    met, complete = condition("SuccessCriteriaMet"), condition("Complete", at=LATER)
    moments = [
        Moment(job(terminating=1), [leaving]),
        Moment(job(terminating=1), [over]),
        Moment(job(succeeded=1), left),
        Moment(job(0, 1, met, succeeded=1), left),
    ]
    seen = sorted(random.sample(range(len(moments)), random.randint(0, len(moments))))
    return [
        *(moments[item] for item in seen),
        Moment(job(0, 1, met, complete, succeeded=1, completionTime=LATER), left),
    ]


def told_pod(there: Json) -> Json:
    """Return the pod as the API server shows it once it was told to end: dated to the end of its grace."""
    told = deleted(there, "2026-11-20T09:00:28Z")
    told["metadata"]["deletionGracePeriodSeconds"] = GRACE
    return told


def _told_pod_that_ended(random: Random, there: Json) -> Json:
    """Return the pod after its end. A node that is done deletes the pod again, and no grace is left."""
    if random.random() < 0.5:
        return told_pod(there)
    told = deleted(there, TOLD_AT)
    told["metadata"]["deletionGracePeriodSeconds"] = 0
    return told


def _is_stopped_in_order(random: Random) -> list[Moment]:
    """The Job is deleted in the foreground, and counts the end of its pod, as the controller is behind."""
    complete = condition("Complete", at=LATER)
    leaving = told_pod(pod("Running", running()))
    over = _told_pod_that_ended(random, pod("Succeeded", ended(0, "Completed")))
    moments = [
        Moment(deleted(job(active=1, ready=1), TOLD_AT), [pod("Running", running())]),
        Moment(deleted(job(active=1, ready=1), TOLD_AT), [leaving]),
        Moment(deleted(job(terminating=1), TOLD_AT), [leaving]),
        Moment(deleted(job(active=1, ready=1), TOLD_AT), [over]),
        Moment(deleted(job(succeeded=1), TOLD_AT), []),
    ]
    seen = sorted(random.sample(range(len(moments)), random.randint(0, len(moments))))
    left = [over] if random.random() < 0.5 and 4 not in seen else []
    end = Moment(deleted(job(0, 1, complete, succeeded=1, completionTime=LATER), TOLD_AT), left)
    return [*(moments[item] for item in seen), end, *([Moment(None)] if random.random() < 0.3 else [])]


def _is_deleted_when_done(random: Random) -> list[Moment]:
    """A stop or a person deletes the Job a moment after its program ended, before the controller noticed."""
    over = pod("Succeeded", ended(0, "Completed"))
    cleaned = deleted(over, A_MOMENT_LATER)
    cleaned["metadata"]["deletionGracePeriodSeconds"] = 0
    complete = condition("Complete", at=A_MOMENT_LATER)
    moments = [
        Moment(job(active=1, ready=1), [over]),
        Moment(deleted(job(active=1, ready=1), A_MOMENT_LATER), [over]),
        Moment(deleted(job(active=1, ready=1), A_MOMENT_LATER), [cleaned]),
    ]
    seen = sorted(random.sample(range(len(moments)), random.randint(0, len(moments))))
    left = random.choice([[], [cleaned]])
    return [
        *(moments[item] for item in seen),
        Moment(deleted(job(0, 1, complete, succeeded=1, completionTime=A_MOMENT_LATER), A_MOMENT_LATER), left),
    ]


def _is_suspended() -> list[Moment]:
    """The Job is suspended, and goes on with another pod."""
    suspended, first = condition("Suspended"), told_pod(pod("Running", running()))
    first["metadata"]["uid"] = "the-first"
    return [
        Moment(job(0, 1, suspended, started=None, terminating=1), [first]),
        Moment(job(0, 1, suspended, started=None)),
        RUNS,
    ]


def _is_orphaned(random: Random) -> list[Moment]:
    """A person deletes the Job and keeps its pod. Only a label names the Job then."""
    over = pod("Succeeded", ended(0)) if random.random() < 0.5 else _failed_pod(random)
    left = [pod("Running", running()), over]
    for item in left:
        del item["metadata"]["ownerReferences"]
    return [*(Moment(None, [item]) for item in left), *([Moment(None)] if random.random() < 0.5 else [])]


def _is_cleaned_up(random: Random, last: Moment) -> list[Moment]:
    """The time to live or a person removes the Job, days later."""
    if last.job is None or random.random() < 0.5:
        return []
    moments = [Moment(deleted(last.job, DAYS_LATER), last.pods), Moment(None, last.pods), Moment(None)]
    return moments[: random.randint(1, 3)]


STORIES: dict[str, Any] = {
    "crossed": _is_deleted_when_done,
    "deadline": lambda _: _exceeds_its_deadline(),
    "orphaned": _is_orphaned,
    "hangs": _hangs,
}
ENDS = [
    "succeeds", "fails", "deadline", "deleted", "orphaned", "image_pull", "goes on",
    "told", "stopped in order", "crossed", "goes on again", "hangs", "replaced",
]  # fmt: skip
