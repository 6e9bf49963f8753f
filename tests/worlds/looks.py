"""Disturbed looks at a life, and what a stop reads of the life just before it deletes the Job."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed
from crawler_lifecycle.clusters.kubernetes.observe.jobs import Jobs
from crawler_lifecycle.clusters.kubernetes.observe.looking import JobPatience, Observer
from crawler_lifecycle.clusters.kubernetes.observe.outcome_facts import facts_by_uid
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.model.looks import JobKey, Look, OutcomeFacts
from tests.kit.clusters.kube import OURS, RUN, UID, Shelf, event
from tests.worlds.disturbances import CALM, Disturbance, disturbed_jobs, disturbed_pods
from tests.worlds.lives import KEY, Life, is_own

# a life has no clock: what is being deleted has just been told to end, and what hangs or waits has done so for long
IN_TIME = JobPatience(no_progress=timedelta(), overdue=timedelta(days=10_000), sidecars=timedelta())
NAMESPACES: tuple[Any, ...] = (None, {}, {"metadata": {"name": "another"}}, 7, [], "crawls")
STATUSES = (None, 401, 403, 410, 429, 500, 503, 504)
Uids = Mapping[JobKey, str]
NOBODY: Uids = {}


@dataclass(frozen=True)
class Span:
    """The moments between which the requests of a look are answered."""

    earliest: int
    now: int


def look_at(life: Life, span: Span, random: Random, rough: Disturbance = CALM, uids: Uids = NOBODY) -> Look:
    """Look once. The list, single Jobs and pods are read one after the other, while life goes on."""
    listed = random.randint(span.earliest, span.now)
    named = random.randint(listed, span.now)
    asked = random.randint(named, span.now)
    shelf = Shelf(page=random.choice([1, 2, 500]))
    shelf.put(
        jobs=disturbed_jobs(life.moments[listed].job, random, rough, is_on_record=bool(uids)),
        pods=disturbed_pods(life.moments[asked].pods, random, rough),
        events=[event(UID, random.choice(["FailedCreate", "Banana"]), random.choice(["exceeded quota", ""]))],
    )
    truth = life.moments[named].job
    shelf.hidden = [truth] if truth else []
    if rough.strikes(random):
        shelf.there["jobs"] = [there for there in shelf.there["jobs"] if not is_own(there)]  # a list that is wrong
    if rough.strikes(random):
        shelf.of_namespace = random.choice(NAMESPACES)
    if rough.strikes(random):
        _break(shelf, random)
    others = [(task, 1) for task in range(1, 25)] if random.random() < 0.05 else []
    return Observer(shelf, OURS, IN_TIME).look(RUN, [KEY, *others], uids=uids)


def facts_before_a_stop(life: Life, span: Span, random: Random, rough: Disturbance, uids: Uids) -> OutcomeFacts | None:
    """Return the outcome facts that a stop reads before it deletes the Job; None as well if pods cannot be read."""
    shelf = Shelf().put(pods=disturbed_pods(life.moments[random.randint(span.earliest, span.now)].pods, random, rough))
    if rough.strikes(random):
        _break(shelf, random)
    try:
        return facts_by_uid(Jobs(shelf, OURS).pods(RUN, [KEY]), uids).get(KEY)
    except LifecycleError:
        return None


def _break(shelf: Shelf, random: Random) -> None:
    """Let one call, or every call after it, fail."""
    left = [random.randint(0, 5)]
    for_good = random.random() < 0.5

    def fault(what: str) -> None:
        left[0] -= 1
        if left[0] == -1 or (for_good and left[0] < 0):
            raise ApiFailed(f"{what}: no answer", random.choice(STATUSES))

    shelf.fault = fault
