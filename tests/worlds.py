"""The life of one job in a cluster, as it is at each moment, and what a disturbed look gets to see of it.

Everything is drawn from one `Random`: hypothesis gives one that it can shrink, the soak one with a seed.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import msgspec

from crawler_lifecycle.adapters.kubernetes.answers import ApiFailed
from crawler_lifecycle.adapters.kubernetes.looking import Looking, Patience
from crawler_lifecycle.contract.states import Intent, TaskStatus
from crawler_lifecycle.domain.looks import JobPhase, Look, TaskRow
from crawler_lifecycle.domain.naming import job_name
from crawler_lifecycle.domain.reasons import RESULT_UNKNOWN
from crawler_lifecycle.domain.verdict import verdict
from tests.kube import (
    LATER,
    NAMESPACE,
    OURS,
    RUN,
    SCHEDULED,
    UID,
    Json,
    Shelf,
    condition,
    container,
    deleted,
    ended,
    event,
    job,
    labels,
    pod,
    running,
    waiting,
)
from tests.rows import NOW, after, applied, row

KEY = (0, 1)
DAYS_LATER = "2026-11-27T09:00:00Z"
OVER = ("Succeeded", "Failed")
STEPS_OF_A_LIFE = 12
LOOKS_AT_A_LIFE = 12
# a life has no clock: what is being deleted has just been told to end, and what hangs has done so for long
IN_TIME = Patience(overdue=timedelta(days=10_000), sidecars=timedelta())
SAY_NOTHING = (None, "failed", "pod_failure_policy", "backoff_limit_exceeded")


@dataclass(frozen=True)
class Moment:
    """What there is."""

    job: Json | None
    pods: list[Json] = field(default_factory=list)

    def says(self, kind: str) -> bool:
        conditions = self.job["status"]["conditions"] if self.job else []
        return any(item["type"] == kind for item in conditions)

    @property
    def remembers(self) -> bool:
        """The Job itself tells what became of its pod."""
        conditions = self.job["status"]["conditions"] if self.job else []
        return any(item["type"] == "Failed" and item["reason"] == "PodFailurePolicy" for item in conditions)

    @property
    def phases(self) -> list[str]:
        return [item["status"]["phase"] for item in self.pods]

    @property
    def is_empty(self) -> bool:
        return self.job is None and not self.pods


@dataclass(frozen=True)
class Life:
    moments: list[Moment]
    stop_at: int | None  # from this moment on the intent is STOP
    is_hopeless: bool = False
    was_told: bool = False  # to end, before it ended with 0
    hangs_with: int | None = None  # the exit code of its main container, while another one runs on for ever
    is_replaced: bool = False  # a job of its name and of another uid is made after it
    skew: int = 0  # seconds that the clock of its node is ahead

    def intent(self, now: int) -> Intent:
        """Half of the stops are forced a moment later."""
        if self.stop_at is None or now < self.stop_at:
            return Intent.RUN
        return Intent.FORCE if self.stop_at % 2 and now > self.stop_at else Intent.STOP

    @property
    def made_at(self) -> int:
        return next((number for number, moment in enumerate(self.moments) if moment.job), len(self.moments))


def a_life(random: Random) -> Life:
    """From before its Job is made to some moment after it may be gone."""
    moments = [Moment(None), Moment(job(started=None)), Moment(job())]
    if random.random() < 0.2:
        moments.insert(2, Moment(job(0, 1, condition("Suspended"), started=None)))
    moments += _start(random)
    end = random.choice(ENDS)
    before = len(moments)
    if end in ("succeeds", "fails"):
        moments += _completes(random) if end == "succeeds" else _fails(random)
        moments += _is_cleaned_up(random, moments[-1])
    elif end in ("told", "stopped in order"):
        moments = [*moments, RUNS, *(_is_told(random) if end == "told" else _is_stopped_in_order(random))]
        moments += _is_cleaned_up(random, moments[-1]) if end == "told" else []
    elif end == "crossed":
        moments += _is_deleted_when_done(random)
    elif end == "goes on again":
        moments += [RUNS, *_is_suspended(), *_completes(random)]
    elif end == "deadline":
        moments += _exceeds_its_deadline(random)
    elif end == "deleted":
        moments += _is_deleted(random, moments[-1])
    elif end == "orphaned":
        moments += _is_orphaned(random)
    elif end == "image_pull":
        stuck = pod("Pending", waiting("ImagePullBackOff"), conditions=[SCHEDULED])
        moments = [*moments[:3], Moment(job(active=1), [stuck])]
    elif end == "hangs":
        moments += _hangs(random)
    elif end == "replaced":
        moments += [RUNS, *_is_replaced(random)]
    cut = len(moments) if random.random() < 0.7 else random.randint(2, len(moments))
    stop_at = random.randint(0, cut) if random.random() < 0.4 else None
    if end in ("deleted", "stopped in order", "crossed") and random.random() < 0.7:
        stop_at = random.randint(0, before)
    told = end in ("told", "stopped in order")
    hopeless = end == "image_pull" and cut == len(moments)
    hangs_with = _code_of_what_hangs(moments[cut - 1]) if end == "hangs" else None
    skew = (
        0  # clocks apart by less than a minute hide the order of end and deletion of a pod without a grace (N18, open)
    )
    return Life(moments[:cut], stop_at, hopeless, told, hangs_with, end == "replaced", skew)


ENDS = [
    "succeeds", "fails", "deadline", "deleted", "orphaned", "image_pull", "goes on",
    "told", "stopped in order", "crossed", "goes on again", "hangs", "replaced",
]  # fmt: skip
RUNS = Moment(job(active=1, ready=1), [pod("Running", running())])
TOLD_AT = "2026-11-20T08:59:58Z"  # before it ended, with 0


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
    """Its main container ends, and a sidecar that nobody ends runs on, or one that cannot be pulled waits on."""
    code = random.choice([0, 0, 3, 137])
    cannot_start = random.random() < 0.5
    beside = waiting("ImagePullBackOff", "proxy") if cannot_start else running("proxy")
    phase = "Pending" if cannot_start else "Running"
    alive = pod(phase, running(), beside, conditions=[SCHEDULED])
    done = pod(phase, ended(code), beside, conditions=[SCHEDULED])
    moments = [Moment(job(active=1, ready=0), [alive]), Moment(job(active=1, ready=0), [done])]
    target, failed = (condition(kind, "DeadlineExceeded", at=DAYS_LATER) for kind in ("FailureTarget", "Failed"))
    late = deleted(done, DAYS_LATER)
    late["metadata"]["deletionGracePeriodSeconds"] = 30
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
    """Its object is gone, and somebody makes another job of its name, with its labels."""
    theirs = job(0, 1, condition(random.choice(["Complete", "Failed"])), uid="another-uid")
    left = pod(random.choice(OVER), ended(random.choice([0, 3])), uid="another-uid")
    return [Moment(None), Moment(theirs, [left])]


def _completes(random: Random) -> list[Moment]:
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
    """By the failure policy of the Job, or, where no rule of it fits, by its limit."""
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


def _exceeds_its_deadline(random: Random) -> list[Moment]:
    target = condition("FailureTarget", "DeadlineExceeded")
    failed = condition("Failed", "DeadlineExceeded", at=LATER)
    leaving = deleted(pod("Running", running()))
    return [Moment(job(0, 1, target, terminating=1), [leaving]), Moment(job(0, 1, target, failed))]


def _is_deleted(random: Random, last: Moment) -> list[Moment]:
    """By a stop of ours or by a person: in the foreground, first its pods, then itself."""
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
    """Drained, preempted or deleted by hand: it ends in order, and nothing of its Job says why."""
    by = random.choice(["EvictionByEvictionAPI", "PreemptionByScheduler", "BananaByMonkeys", None])
    conditions = [condition("DisruptionTarget", by, at=TOLD_AT)] if by else []
    leaving = told_pod(pod("Running", running(), conditions=conditions))
    over = told_pod(pod("Succeeded", ended(0, "Completed"), conditions=conditions))
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
    """Its deletion is dated to the end of its grace."""
    found = deleted(there, "2026-11-20T09:00:28Z")
    found["metadata"]["deletionGracePeriodSeconds"] = 30
    return found


def _is_stopped_in_order(random: Random) -> list[Moment]:
    """Its Job is deleted in the foreground; and counts the end of its pod, as the controller is behind."""
    complete = condition("Complete", at=LATER)
    leaving, over = told_pod(pod("Running", running())), told_pod(pod("Succeeded", ended(0, "Completed")))
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
    """A stop, or a person, comes a moment too late; and so does the controller."""
    too_late = "2026-11-20T09:00:01Z"
    over = pod("Succeeded", ended(0, "Completed"))
    cleaned = deleted(over, too_late)
    cleaned["metadata"]["deletionGracePeriodSeconds"] = 0
    complete = condition("Complete", at=too_late)
    moments = [
        Moment(job(active=1, ready=1), [over]),
        Moment(deleted(job(active=1, ready=1), too_late), [over]),
        Moment(deleted(job(active=1, ready=1), too_late), [cleaned]),
    ]
    seen = sorted(random.sample(range(len(moments)), random.randint(0, len(moments))))
    left = random.choice([[], [cleaned]])
    return [
        *(moments[item] for item in seen),
        Moment(deleted(job(0, 1, complete, succeeded=1, completionTime=too_late), too_late), left),
    ]


def _is_suspended() -> list[Moment]:
    """And goes on, with another pod."""
    suspended, first = condition("Suspended"), told_pod(pod("Running", running()))
    first["metadata"]["uid"] = "the-first"
    return [
        Moment(job(0, 1, suspended, started=None, terminating=1), [first]),
        Moment(job(0, 1, suspended, started=None)),
        RUNS,
    ]


def _is_orphaned(random: Random) -> list[Moment]:
    """By a person: the Job is gone, its pod lives on, and only its label tells whose it was."""
    over = pod("Succeeded", ended(0)) if random.random() < 0.5 else _failed_pod(random)
    left = [pod("Running", running()), over]
    for item in left:
        del item["metadata"]["ownerReferences"]
    return [*(Moment(None, [item]) for item in left), *([Moment(None)] if random.random() < 0.5 else [])]


def _is_cleaned_up(random: Random, last: Moment) -> list[Moment]:
    """By its time to live, or a person, days later."""
    if last.job is None or random.random() < 0.5:
        return []
    moments = [Moment(deleted(last.job, DAYS_LATER), last.pods), Moment(None, last.pods), Moment(None)]
    return moments[: random.randint(1, 3)]


# What a look gets to see


@dataclass(frozen=True)
class Disturbance:
    """How likely it is, for each thing that may be disturbed, that it is."""

    share: float

    def strikes(self, random: Random) -> bool:
        return random.random() < self.share


CALM, ROUGH = Disturbance(0), Disturbance(0.15)


def look_at(life: Life, earliest: int, now: int, random: Random, rough: Disturbance = CALM) -> Look:
    """A look between two moments.

    The parts of it are asked for one after the other, while life goes on: the list, single jobs, pods."""
    listed = random.randint(earliest, now)
    named = random.randint(listed, now)
    asked = random.randint(named, now)
    shelf = Shelf(page=random.choice([1, 2, 500]))
    shelf.put(
        jobs=_disturbed_jobs(life.moments[listed].job, random, rough),
        pods=_disturbed_pods([_by_its_clock(item, life.skew) for item in life.moments[asked].pods], random, rough),
        events=[event(UID, random.choice(["FailedCreate", "Banana"]), random.choice(["exceeded quota", ""]))],
    )
    truth = life.moments[named].job
    shelf.hidden = [truth] if truth else []
    if rough.strikes(random):
        shelf.there["jobs"] = [item for item in shelf.there["jobs"] if not _is_own(item)]  # a list that is wrong
    if rough.strikes(random):
        shelf.of_namespace = random.choice([None, {}, {"metadata": {"name": "another"}}, 7, [], "crawls"])
    if rough.strikes(random):
        _break(shelf, random)
    others = [(task, 1) for task in range(1, 25)] if random.random() < 0.05 else []
    return Looking(shelf, OURS, IN_TIME).look(RUN, [KEY, *others])


def _by_its_clock(there: Json, skew: int) -> Json:
    """The node writes when a container ended; the API server writes when its pod was deleted."""
    there = deepcopy(there)
    for item in there["status"].get("containerStatuses") or []:
        if end := item["state"].get("terminated"):
            end["finishedAt"] = (datetime.fromisoformat(end["finishedAt"]) + timedelta(seconds=skew)).isoformat()
    return there


def _break(shelf: Shelf, random: Random) -> None:
    """One call, or every one after it, comes to nothing."""
    left = [random.randint(0, 5)]
    for_good = random.random() < 0.5

    def fault(what: str) -> None:
        left[0] -= 1
        if left[0] == -1 or (for_good and left[0] < 0):
            raise ApiFailed(f"{what}: no answer", random.choice([None, 401, 403, 410, 429, 500, 503, 504]))

    shelf.fault = fault


def _is_own(obj: Any) -> bool:
    return isinstance(obj, dict) and isinstance(obj.get("metadata"), dict) and obj["metadata"].get("uid") == UID


NONSENSE: list[Any] = [None, 0, -1, "", "Complete", [], {}, [None], True, 1e300, {"type": None}, [{"type": "Complete"}]]


def _disturbed_jobs(own: Json | None, random: Random, rough: Disturbance) -> list[Any]:
    jobs: list[Any] = [_disturbed(own, random, rough)] if own else []
    if rough.strikes(random):
        of_another = random.choice([(7, 1), (0, 2)])
        other = job(*of_another, condition(random.choice(["Complete", "Failed"])), uid="another-job")
        jobs.append(random.choice([other, _broken(other, random), _absurd(other, random), _half_a_letter(other)]))
    if rough.strikes(random):
        theirs = job(0, 1, condition(random.choice(["Complete", "Failed"])), uid="theirs")
        theirs["metadata"] |= {"name": "theirs", "labels": labels(installation="theirs")}
        jobs.append(theirs)
    if rough.strikes(random):
        jobs.append(random.choice(NONSENSE))
    if rough.strikes(random) and own:
        jobs[0] = _broken(jobs[0], random)
    random.shuffle(jobs)
    return jobs


def _disturbed_pods(own: Sequence[Json], random: Random, rough: Disturbance) -> list[Any]:
    pods: list[Any] = [_disturbed(item, random, rough) for item in own]
    if rough.strikes(random):
        pods.append(
            _told_perhaps(pod(random.choice(["Succeeded", "Failed", "Running"]), ended(0), uid="other"), random)
        )
    if rough.strikes(random):
        another = pod(random.choice(["Succeeded", "Failed", "Running"]), ended(random.choice([0, 3])), attempt=2)
        pods.append(_told_perhaps(another, random))
    if rough.strikes(random):
        pods.append(_absurd(told_pod(pod("Running", running(), task=7, uid="another-job")), random))
    if rough.strikes(random) and own:
        pods[0] = _absurd(pods[0], random, own=True)
    if rough.strikes(random):
        pods.append(random.choice(NONSENSE))
    if rough.strikes(random) and own:
        pods[0] = _broken(pods[0], random)
    random.shuffle(pods)
    return pods


def _told_perhaps(there: Json, random: Random) -> Json:
    """Whatever becomes of another's pod says nothing about ours."""
    if random.random() < 0.5:
        return there
    there["status"]["conditions"] = [condition("DisruptionTarget", "EvictionByEvictionAPI", at=TOLD_AT)]
    return told_pod(there)


def _disturbed(obj: Json, random: Random, rough: Disturbance) -> Json:
    """Return an object that says the same in another order, and with parts that nobody has heard of."""
    obj = msgspec.json.decode(msgspec.json.encode(obj))
    status = obj["status"]
    if rough.strikes(random):
        status["conditions"] = [*(status.get("conditions") or []), *_unheard_of(random)]
    if rough.strikes(random):
        status |= {"banana": random.choice(NONSENSE), "observedGeneration": None}
        obj["metadata"]["managedFields"] = random.choice(NONSENSE)
    if rough.strikes(random) and "containerStatuses" in status:
        extra = random.choice([running("istio"), waiting("Banana", "istio"), container("istio", banana={})])
        status["containerStatuses"] = [*(status["containerStatuses"] or []), extra]
    if rough.strikes(random) and "containerStatuses" in status:
        others = [
            ended(143, name="proxy"),
            running("proxy"),
            ended(0, "Completed", "init"),
            container("init", banana={}),
        ]
        status.setdefault("initContainerStatuses", [random.choice(others)])
        obj["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}, {"name": "init"}]
    if rough.strikes(random):
        obj["spec"]["containers"] = None
    for several in (status.get("conditions"), status.get("containerStatuses")):
        if several:
            random.shuffle(several)
    return obj


TIMES = ("creationTimestamp", "startedAt", "finishedAt", "lastTransitionTime", "startTime", "completionTime")
OF_A_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
ABSURD_TIMES = ("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59+14:00", "2200-01-01T00:00:00Z")


def _absurd(obj: Json, random: Random, *, own: bool = False) -> Json:
    """A time or a grace that no server means. Of its own objects only what is not needed for its end."""
    obj = deepcopy(obj)
    chosen = random.choice(TIMES if own else (*TIMES, *OF_A_DELETION))
    if not own and chosen in OF_A_DELETION:
        obj["metadata"] |= {"deletionTimestamp": LATER, chosen: 10**11 if "Grace" in chosen else ABSURD_TIMES[0]}
    _replace_times(obj, chosen, random.choice(ABSURD_TIMES))
    return obj


def _replace_times(part: Any, name: str, time: str) -> None:
    for item in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _replace_times(item, name, time)
    if isinstance(part, dict) and isinstance(part.get(name), str):
        part[name] = time


def _half_a_letter(obj: Json) -> msgspec.Raw:
    """Half a surrogate pair, which is no text."""
    text = msgspec.json.encode({**obj, "kind": "half"}).replace(b'"half"', b'"\\ud800 \\\\ud800"')
    return msgspec.Raw(text)


def _unheard_of(random: Random) -> list[Json]:
    return [
        condition(random.choice(["Banana", "", "complete", "COMPLETE"]), status=random.choice(["True", "Unknown"])),
        condition(random.choice(["Complete", "Failed"]), status=random.choice(["False", "Unknown", "true", ""])),
    ]


def _broken(obj: Json, random: Random) -> Any:
    """Some part of it, however deep, is something else."""
    obj = msgspec.json.decode(msgspec.json.encode(obj))
    part: Any = obj
    while True:
        key = random.choice(sorted(part))
        if isinstance(part[key], dict) and part[key] and random.random() < 0.7:
            part = part[key]
            continue
        if part is obj["metadata"].get("labels") or (part is obj["metadata"] and key in ("labels", "uid", "name")):
            part[key] = random.choice([7, [], True])  # another's label would make it another's job
        else:
            part[key] = random.choice([7.5, "banana", [7], [None], True])
        return obj


# What must be true, whatever is seen


def live(random: Random) -> tuple[int, TaskRow]:
    """One life, looked at again and again; how many looks, and the row in the end."""
    life = a_life(random)
    known_from_start = life.is_replaced or random.random() < 0.5
    now = min(life.made_at, len(life.moments) - 1) if known_from_start else 0
    current = (
        row(TaskStatus.PENDING, UID) if known_from_start and life.made_at == now else row(TaskStatus.DEPLOYING, None)
    )
    looks = random.randint(1, LOOKS_AT_A_LIFE)
    read, seen_told, was_shown = current, False, False
    for _ in range(looks):
        now = min(now + random.choice([0, 0, 1, 1, 2, 5]), len(life.moments) - 1)
        read = current if random.random() < 0.8 else read  # a look that took long, and what it had read
        earliest = life.made_at if read.job_uid else 0
        rough = ROUGH if random.random() < 0.7 else CALM
        look = look_at(life, min(earliest, now), now, random, rough)
        before, current = current, applied(current, verdict(read, look, life.intent(now), NOW))
        check(life, now, look, before, current, seen_told=seen_told)
        if read.version == before.version and (look.complete or KEY in look.jobs):
            if current.status is TaskStatus.LOST is not before.status:
                assert not was_shown, "an absence that was interrupted begins anew"
            seen = look.jobs.get(KEY)
            is_own = seen is not None and seen.uid == UID == current.job_uid
            if is_own and seen and seen.facts and seen.facts.has_ended and not before.status.is_over:
                assert current.facts is not None, "what was seen of an end is on record"
                assert current.facts.has_ended
            was_shown = KEY in look.jobs and not look.jobs[KEY].gone and look.jobs[KEY].uid in ("", UID)
        seen_told = knows_that_it_was_told(current, seen_told=seen_told)
    last = len(life.moments) - 1
    before, intent = current, life.intent(last)
    for _ in range(3):
        look = look_at(life, last, last, random)
        previous, current = current, after(current, look, intent=intent)
        check(life, last, look, previous, current, seen_told=seen_told)
    assert current.status in expected(life, before, intent, seen_told=seen_told), (life, before, current)
    if not before.status.is_over and current.status is TaskStatus.FAILED and life.moments[last].remembers:
        assert current.reason not in SAY_NOTHING, (life, current)
    return looks + 3, current


def knows_that_it_was_told(row: TaskRow, *, seen_told: bool) -> bool:
    """Whatever is seen of its end after that; unless it was seen running again."""
    seen = row.cause == "pod_terminating" or (row.cause == "deleted_externally" and row.reason is not None)
    on_record = row.facts is not None and row.facts.told_to_end is True
    return seen or on_record or (seen_told and row.cause in ("finishing", "deleted_externally"))


def check(life: Life, now: int, look: Look, before: TaskRow, current: TaskRow, *, seen_told: bool = False) -> None:
    past, seen = life.moments[: now + 1], look.jobs.get(KEY)
    if before.status.is_over and before.status is not TaskStatus.LOST:
        assert current == before, "an end is an end"
    if seen is None and not look.complete:
        assert current == before, "the unknown changes nothing"
    if seen is not None and seen.phase is JobPhase.UNCLEAR and not seen.gone:
        interrupted = replace(before, version=current.version, absent_count=0)
        assert current in (before, interrupted), "the unknown only interrupts an absence"
    check_facts(life, past, current)
    if current.status is before.status:
        return
    if current.status is TaskStatus.SUCCEEDED:
        said = any(item.says("Complete") or (item.job is None and "Succeeded" in item.phases) for item in past)
        assert said or _by_facts(current)
        assert not (life.was_told and seen_told), "what ended because it was told to was not done"
    elif current.status is TaskStatus.FAILED:
        said = any(item.says("Failed") or (item.job is None and "Failed" in item.phases) for item in past)
        told = life.was_told and any(item.says("Complete") for item in past)
        gave_up = current.reason == "pod_create_rejected" and any(map(_has_no_pod, past))
        assert said or life.is_hopeless or told or gave_up or _by_facts(current)
    elif current.status is TaskStatus.LOST:
        assert not (current.facts and current.facts.has_ended), "how it ended is on record"
        nobody_can_tell = seen is not None and seen.gone and current.reason == RESULT_UNKNOWN
        is_gone = past[-1].is_empty or (life.is_replaced and len(past) > life.made_at)
        assert is_gone or nobody_can_tell, "lost is only what is gone"
        assert life.intent(now) is Intent.RUN
    elif current.status is TaskStatus.STOPPED:
        assert life.intent(now) is not Intent.RUN
        assert before.job_uid is None or not set(past[-1].phases) - set(OVER), "nothing that runs is stopped"
    if before.status is TaskStatus.LOST:
        assert current.status in (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


def check_facts(life: Life, past: Sequence[Moment], current: TaskRow) -> None:
    """Facts on record are true."""
    facts = current.facts
    if facts is not None and facts.told_to_end:
        assert any(map(_was_told_in, past)), "nobody told it"
    if facts is not None and facts.has_ended:
        assert facts.job_uid == UID, "facts are of no other job"
        ends = [end for moment in past for pod in moment.pods if (end := end_of(pod))]
        assert (facts.succeeded, facts.exit_code) in ends, "the program has ended so"
        assert not (life.was_told and facts.ended_by_itself), "it was told to end"


def _by_facts(current: TaskRow) -> bool:
    """Facts are checked by themselves: the row may say what they say."""
    facts = current.facts
    if facts is None or not facts.has_ended:
        return False
    done = facts.succeeded and not facts.told_to_end
    return current.status is (TaskStatus.SUCCEEDED if done else TaskStatus.FAILED)


def _has_no_pod(moment: Moment) -> bool:
    return moment.job is not None and not moment.pods and not moment.job["status"]["conditions"]


def _was_told_in(moment: Moment) -> bool:
    terminating = bool(moment.job and moment.job["status"].get("terminating"))
    disrupted = ("DisruptionTarget" in str(pod["status"].get("conditions")) for pod in moment.pods)
    return terminating or any("deletionTimestamp" in pod["metadata"] for pod in moment.pods) or any(disrupted)


def end_of(there: Json) -> tuple[bool, int | None] | None:
    """Whether the main container of this pod was done, and its exit code."""
    phase, statuses = there["status"]["phase"], there["status"]["containerStatuses"] or []
    codes = [
        item["state"]["terminated"]["exitCode"]
        for item in statuses
        if "terminated" in item["state"] and item["name"] == "crawl"
    ]
    code = codes[0] if codes else None
    if phase in OVER:
        return phase == "Succeeded", code
    return (code == 0, code) if codes else None


def expected(life: Life, before: TaskRow, intent: Intent, *, seen_told: bool = False) -> set[TaskStatus]:
    """What the row has to be once the truth was seen three times, undisturbed."""
    last, stops = life.moments[-1], intent is not Intent.RUN
    if last.job is not None and last.job["metadata"]["uid"] != UID:
        last = Moment(None)
    if before.status.is_over and before.status is not TaskStatus.LOST:
        return {before.status}
    if life.was_told and (last.says("Complete") or (last.job is None and last.pods)):
        return _expected_of_what_was_told(last, before, stops=stops, seen_told=seen_told)
    if last.says("Complete"):
        return {TaskStatus.SUCCEEDED}
    ends_late = last.job is not None and last.job["metadata"].get("deletionTimestamp") == DAYS_LATER
    if life.hangs_with is not None:
        return {TaskStatus.FAILED if life.hangs_with else TaskStatus.SUCCEEDED}
    if last.says("Failed"):
        if before.facts and before.facts.ended_by_itself and before.facts.succeeded and "DeadlineExceeded" in str(last):
            return {TaskStatus.SUCCEEDED}
        was_told = last.job is not None and "deletionTimestamp" in last.job["metadata"] and not ends_late
        return {TaskStatus.STOPPED if stops and was_told else TaskStatus.FAILED}
    if life.is_hopeless:
        return {TaskStatus.FAILED}
    if last.job is not None and "deletionTimestamp" in last.job["metadata"]:
        return {TaskStatus.STOPPING}
    if last.job is not None:
        unseen = {TaskStatus.DEPLOYING} if "Unknown" in last.phases else set()
        rejected = {TaskStatus.FAILED} if _has_no_pod(last) else set()
        return {TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.STOPPING} | unseen | rejected
    return _expected_of_what_is_left(last, before, stops=stops)


def _expected_of_what_was_told(last: Moment, before: TaskRow, *, stops: bool, seen_told: bool) -> set[TaskStatus]:
    if last.job is None and before.job_uid is None:
        return {TaskStatus.STOPPED if stops else before.status}
    if not (seen_told or last.pods):
        return {TaskStatus.SUCCEEDED}  # and nobody can know better
    was_stopped = stops and before.status is not TaskStatus.LOST
    return (
        {TaskStatus.STOPPED, TaskStatus.FAILED}
        if was_stopped and not last.pods
        else {TaskStatus.STOPPED if was_stopped else TaskStatus.FAILED}
    )


def _expected_of_what_is_left(last: Moment, before: TaskRow, *, stops: bool) -> set[TaskStatus]:
    if before.job_uid is None:  # nobody knows that it ever had a job
        return {TaskStatus.STOPPED if stops else before.status}
    if not last.pods:
        if before.status is TaskStatus.LOST:
            return {TaskStatus.LOST}
        if before.facts and before.facts.has_ended and (before.facts.ended_by_itself or not stops):
            done = before.facts.succeeded and not before.facts.told_to_end
            return {TaskStatus.SUCCEEDED if done else TaskStatus.FAILED}
        return {TaskStatus.STOPPED if stops else TaskStatus.LOST}
    [left] = last.pods
    if left["status"]["phase"] == "Succeeded":
        return {TaskStatus.SUCCEEDED}
    if left["status"]["phase"] == "Failed":
        told = stops and "deletionTimestamp" in left["metadata"] and before.status is not TaskStatus.LOST
        return {TaskStatus.STOPPED if told else TaskStatus.FAILED}
    return {TaskStatus.STOPPING}
