"""Generated waits: what holds a job back changes from minute to minute, and looks and events come when they come.

The Job controller tries again every minute. Its events are late, dropped or put together into one; it may be away, and
then nothing is tried. A task may be given up only for an obstacle that no look in half an hour found gone, and a
program that has started is never ended.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from enum import StrEnum
from random import Random

from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed
from crawler_lifecycle.clusters.kubernetes.observe.looking import Observer
from crawler_lifecycle.model.looks import Look, TaskRow, uids_of
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.runs.rules.verdict import is_hopeless, verdict
from tests.kit.clusters.kube import OURS, RUN, UID, Json, Shelf, condition, event, job, pod, running, waiting
from tests.kit.data.rows import HALF_AN_HOUR, applied, row
from tests.worlds.lives import KEY

BEGAN_AT = datetime(2026, 11, 20, 8, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
KEPT = timedelta(hours=1)  # that the cluster keeps events
LATELY = timedelta(minutes=11)  # a rejection of that age may still be the latest event
PAUSES = (2, 10, 60, 300, 900)  # seconds between looks
LONGEST = 240  # minutes of a wait before its last state
LAST = 100  # minutes of its last state: long enough for any patience


class Obstacle(StrEnum):
    QUOTA = "exceeded quota: compute"
    WEBHOOK = "Internal error occurred: failed calling webhook"
    STORE = "etcdserver: request timed out"
    AWAY = "the controller is away"
    PULLING = "ContainerCreating"
    NO_IMAGE = "ImagePullBackOff"
    NONE = "it runs"


REJECTIONS = (Obstacle.WEBHOOK, Obstacle.STORE)
WITHOUT_POD = (Obstacle.QUOTA, *REJECTIONS, Obstacle.AWAY)
OF_TRIES = (Obstacle.QUOTA, *REJECTIONS)
CAUSES = {"pod_create_rejected": REJECTIONS, "image_pull": (Obstacle.NO_IMAGE,)}


@dataclass
class Wait:
    """A job that waits. `obstacles`: what holds it back, by the minute."""

    obstacles: list[Obstacle]
    random: Random
    tries: list[tuple[datetime, Obstacle]] = field(default_factory=list)  # by the Job controller
    recorded: list[tuple[datetime, datetime, Obstacle]] = field(default_factory=list)  # seen from, happened at

    def __post_init__(self) -> None:
        self.are_events_merged = self.random.random() < 0.2
        kept_in_a_row = 0
        for minute, obstacle in enumerate(self.obstacles):
            if obstacle not in OF_TRIES:
                continue
            at = BEGAN_AT + minute * MINUTE + timedelta(seconds=self.random.randint(0, 59))
            self.tries.append((at, obstacle))
            is_dropped = kept_in_a_row < 4 and self.random.random() < 0.5  # it keeps one in five minutes at least
            kept_in_a_row = kept_in_a_row + 1 if is_dropped else 0
            if not is_dropped:
                self.recorded.append((at + timedelta(seconds=self.random.choice([0, 0, 5, 40])), at, obstacle))

    def obstacle(self, now: datetime) -> Obstacle:
        return self.obstacles[min(int((now - BEGAN_AT) / MINUTE), len(self.obstacles) - 1)]

    def look(self, now: datetime, *, calm: bool = False) -> Look:
        obstacle = self.obstacle(now)
        shelf = Shelf()
        shelf.clock.set(format_datetime(now, usegmt=True))
        pods = [] if obstacle in WITHOUT_POD else [self._pod(obstacle)]
        is_active: Json = {"active": 1, "ready": int(obstacle is Obstacle.NONE)} if pods else {}
        shelf.put(jobs=[job(started=BEGAN_AT.isoformat(), **is_active)], pods=pods, events=self._events(now))
        if not calm and self.random.random() < 0.1:
            shelf.fault = self._broken
        return Observer(shelf, OURS).look(RUN, [KEY])

    def _pod(self, obstacle: Obstacle) -> Json:
        minutes = (minute for minute, held_by in enumerate(self.obstacles) if held_by not in WITHOUT_POD)
        made_at = BEGAN_AT + next(minutes) * MINUTE
        state = running() if obstacle is Obstacle.NONE else waiting(obstacle)
        phase = "Running" if obstacle is Obstacle.NONE else "Pending"
        return pod(phase, state, conditions=[condition("PodScheduled", at=made_at.isoformat())])

    def _events(self, now: datetime) -> list[Json]:
        """Return an event for each kind of failure, with its last time, or one for all."""
        known = [(at, obstacle) for seen_at, at, obstacle in self.recorded if seen_at <= now < at + KEPT]
        latest = {obstacle: at for at, obstacle in sorted(known)}
        if latest and self.are_events_merged:
            last = max(latest, key=lambda obstacle: latest[obstacle])
            latest = {last: latest[last]}
        failures = [event(UID, "FailedCreate", f"Error creating: {why}", at.isoformat()) for why, at in latest.items()]
        return [{**failure, "metadata": {"name": f"{UID}.{number}"}} for number, failure in enumerate(failures)]

    def _broken(self, what: str) -> None:
        if what == "events":
            raise ApiFailed("events: no answer", 503)


def wait(random: Random) -> tuple[int, TaskRow]:
    """Look at a wait. Return how many looks were made, and the row at the end."""
    obstacles = _obstacles(random)
    waited, now, current, looks = Wait(obstacles, random), BEGAN_AT, row(TaskStatus.PENDING), 0
    seen: list[datetime] = []
    end = BEGAN_AT + len(obstacles) * MINUTE
    while now < end and not current.status.is_over:
        calm = now > end - LAST * MINUTE
        current, now = _look_and_act(waited, now, current, random, seen, calm=calm)
        now += timedelta(seconds=random.choice(PAUSES))
        looks += 1
    _check_end(waited, current, obstacles[-1])
    return looks, current


def _look_and_act(
    waited: Wait, now: datetime, current: TaskRow, random: Random, seen: list[datetime], *, calm: bool
) -> tuple[TaskRow, datetime]:
    """As a run does: a task that is hopeless is over only if a second look, just before its job is ended, says so."""
    look = waited.look(now, calm=calm)
    change = verdict(current, look, Intent.RUN, now)
    seen.append(now)
    if change is None or not is_hopeless(look, change):
        return applied(current, change, now), now
    now += timedelta(seconds=random.choice([0, 1, 20, 120]))
    look = waited.look(now, calm=calm)
    change = verdict(current, look, Intent.RUN, now)
    seen.append(now)
    if change is None or not is_hopeless(look, change):
        return applied(current, change, now), now
    _check_giving_up(waited, now, change.reason or "", seen)
    assert uids_of([current])[KEY] == change.job_uid
    return applied(current, change, now), now


def _check_giving_up(waited: Wait, now: datetime, reason: str, seen: list[datetime]) -> None:
    assert waited.obstacle(now) is not Obstacle.NONE, "a program that has started is ended"
    if reason != "image_pull" and not waited.are_events_merged:
        quota = [at for seen_at, at, why in waited.recorded if why is Obstacle.QUOTA and seen_at <= now]
        assert not any(at > now - HALF_AN_HOUR for at in quota), "whatever rejects pods let this one pass"
    before = [at for at in seen if at > now - HALF_AN_HOUR]
    first = max((at for at in seen if at <= now - HALF_AN_HOUR), default=None)
    assert first is not None, "it was looked at for less than half an hour"
    for at in (first, *before):
        if reason == "image_pull":
            assert waited.obstacle(at) is Obstacle.NO_IMAGE, "its image was not refused at a look"
        else:
            rejections = [tried_at for tried_at, why in waited.tries if why in REJECTIONS]
            assert any(at - LATELY < tried_at <= at for tried_at in rejections), "no rejection"


def _check_end(waited: Wait, current: TaskRow, last: Obstacle) -> None:
    given_up = {reason for reason, obstacles in CAUSES.items() if last in obstacles}
    if current.status is TaskStatus.FAILED:
        assert current.reason in CAUSES
        return  # `_check_giving_up` has judged it
    assert not given_up, "what waits in vain is given up in the end"
    assert current.status is (TaskStatus.RUNNING if last is Obstacle.NONE else TaskStatus.PENDING), (waited, current)


def _obstacles(random: Random) -> list[Obstacle]:
    """Return what holds the job back: first its pod is not made, and then its program does not start."""
    obstacles: list[Obstacle] = []
    while len(obstacles) < random.randint(0, LONGEST):
        obstacles += [random.choice(WITHOUT_POD)] * random.choice([1, 1, 2, 5, 20, 45])
    if random.random() < 0.4:
        for _ in range(random.randint(1, 6)):
            obstacles += [random.choice([Obstacle.PULLING, Obstacle.NO_IMAGE])] * random.choice([1, 2, 10, 40])
        return obstacles + [random.choice([Obstacle.PULLING, Obstacle.NO_IMAGE, Obstacle.NONE])] * LAST
    return obstacles + [random.choice([*WITHOUT_POD, Obstacle.NONE])] * LAST
