"""Disturbances: another order, unknown parts, sidecars, edited labels, absurd times, nonsense, objects of others.

A disturbed object of the life still tells how the job stands; a broken one tells less, and never another truth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from tests.kit.clusters.kube import LATER, Json, condition, container, ended, job, labels, pod, running, waiting
from tests.worlds.stories import TOLD_AT, told_pod

NONSENSE: list[Any] = [None, 0, -1, "", "Complete", [], {}, [None], True, 1e300, {"type": None}, [{"type": "Complete"}]]
TIMES = ("creationTimestamp", "startedAt", "finishedAt", "lastTransitionTime", "startTime", "completionTime")
OF_A_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
ABSURD_TIMES = ("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59+14:00", "2200-01-01T00:00:00Z")
OUR_LABELS = tuple(labels())
ENCODE, DECODE = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


@dataclass(frozen=True)
class Disturbance:
    """How likely it is, for each part that may be disturbed, that it is."""

    share: float

    def strikes(self, random: Random) -> bool:
        return random.random() < self.share


CALM, ROUGH = Disturbance(0), Disturbance(0.15)


def disturbed_jobs(own: Json | None, random: Random, rough: Disturbance, *, is_on_record: bool) -> list[Any]:
    """Return the Jobs that a list shows. `is_on_record`: people edit labels of Jobs whose uid is known."""
    if rough is CALM:
        return [own] if own else []
    jobs: list[Any] = [_disturbed(own, random, rough)] if own else []
    if rough.strikes(random) and own and is_on_record:
        _edit_labels(jobs[0], random)
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


def disturbed_pods(own: Sequence[Json], random: Random, rough: Disturbance) -> list[Any]:
    if rough is CALM:
        return list(own)
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
        _absurd(pods[0], random, own=True)
    if rough.strikes(random):
        pods.append(random.choice(NONSENSE))
    if rough.strikes(random) and own:
        pods[0] = _broken(pods[0], random)
    random.shuffle(pods)
    return pods


def _edit_labels(there: Json, random: Random) -> None:
    """A person or a webhook strips our labels, or changes one of them."""
    if random.random() < 0.3:
        there["metadata"]["labels"] = {}
        return
    carried, name = there["metadata"]["labels"], random.choice(OUR_LABELS)
    if random.random() < 0.5:
        del carried[name]
    else:
        carried[name] = random.choice(["another", "1", "x", ""])


def _told_perhaps(there: Json, random: Random) -> Json:
    """Return a pod of another job, half the time as told to end: its fate says nothing about ours."""
    if random.random() < 0.5:
        return there
    there["status"]["conditions"] = [condition("DisruptionTarget", "EvictionByEvictionAPI", at=TOLD_AT)]
    return told_pod(there)


def _disturbed(obj: Json, random: Random, rough: Disturbance) -> Json:
    """Return a copy of an object that says the same in another order, and with parts that are unknown to us."""
    obj = DECODE(ENCODE(obj))
    status = obj["status"]
    if rough.strikes(random):
        status["conditions"] = [*(status.get("conditions") or []), *_unheard_of(random)]
    if rough.strikes(random):
        status |= {"banana": random.choice(NONSENSE), "observedGeneration": None}
        obj["metadata"]["managedFields"] = random.choice(NONSENSE)
    if "containerStatuses" in status:
        _inject_containers(obj, random, rough)
    if rough.strikes(random) and not _has_sidecars(obj):
        obj["spec"]["containers"] = None
    for several in (status.get("conditions"), status.get("containerStatuses")):
        if several:
            random.shuffle(several)
    return obj


def _has_sidecars(obj: Json) -> bool:
    """Whether only the spec tells which container is the main one."""
    return len(obj["spec"].get("containers") or ()) > 1


def _inject_containers(obj: Json, random: Random, rough: Disturbance) -> None:
    """A webhook puts a sidecar before the main container, or init containers and native sidecars before all."""
    status = obj["status"]
    if rough.strikes(random):
        extra = random.choice(
            [
                running("istio"),
                ended(143, name="istio"),
                waiting("Banana", "istio"),
                container("istio", banana={}),
            ]
        )
        status["containerStatuses"] = [extra, *(status["containerStatuses"] or [])]
        obj["spec"]["containers"] = [{"name": "istio"}, *obj["spec"]["containers"]]
    if rough.strikes(random):
        others = [
            ended(143, name="proxy"),
            running("proxy"),
            ended(0, "Completed", "init"),
            container("init", banana={}),
        ]
        status.setdefault("initContainerStatuses", [random.choice(others)])
        obj["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}, {"name": "init"}]


def _absurd(obj: Json, random: Random, *, own: bool = False) -> Json:
    """Set a time or a grace that no server means; in an object of the life only times that its end does not need."""
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
    """Return an object with half a surrogate pair, which is no text."""
    text = ENCODE({**obj, "kind": "half"}).replace(b'"half"', b'"\\ud800 \\\\ud800"')
    return msgspec.Raw(text)


def _unheard_of(random: Random) -> list[Json]:
    return [
        condition(random.choice(["Banana", "", "complete", "COMPLETE"]), status=random.choice(["True", "Unknown"])),
        condition(random.choice(["Complete", "Failed"]), status=random.choice(["False", "Unknown", "true", ""])),
    ]


def _broken(obj: Json, random: Random) -> Any:
    """Return a copy of which a part, however deep, has another type."""
    obj = DECODE(ENCODE(obj))
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
