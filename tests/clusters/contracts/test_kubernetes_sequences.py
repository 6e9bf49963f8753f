"""Whatever is done for a run, in whatever order, and wherever it breaks off: at most one Job lives for each attempt, a
stop ends every task and leaves no pod, and a crash changes nothing about the end."""

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from crawler_lifecycle.clusters.kubernetes.naming import ATTEMPT, INSTALLATION, RUN_UID, TASK
from crawler_lifecycle.model.naming import job_name
from crawler_lifecycle.model.retries import Retries
from crawler_lifecycle.model.states import TaskStatus
from tests.kit.clusters.api_servers import ApiServer, Json, an_api_server
from tests.kit.clusters.doomed import Line, Trouble
from tests.kit.clusters.small_cluster import owner_of
from tests.kit.clusters.supervised import Step, Supervised
from tests.kit.samples import examples

TASKS = 3  # the name of the last one's Job is taken
RETRIES = Retries(infrastructure=2, program=1, pause_seconds=0)
ROUNDS = 12  # of a stop: what there is has gone after four moves of the cluster
BY_OTHERS = ["orphan", "lose_pod", "strip", "edit", "inject", "drain", "reboot", "reject"]
BY_ITSELF = ["move", "move", "move", "end", *BY_OTHERS]
IN_A_RUN = ["deploy", "deploy", "send", "look", "look", "remove", *BY_ITSELF]
IN_A_STOP = ["stop", "force", "look", "send", "remove", *BY_ITSELF]


def steps(names: list[str], fewest: int, most: int) -> st.SearchStrategy[list[Step]]:
    step = st.tuples(st.sampled_from(names), st.sampled_from([0, 0, 0, 1, 1, 1, 2]), st.sampled_from([0, 3]))
    return st.lists(step, min_size=fewest, max_size=most)


DEATHS = (Trouble.DIES_BEFORE, Trouble.DIES_AFTER)
QUICKLY = settings(max_examples=examples(12), phases=set(Phase) - {Phase.explain})
SEQUENCES = st.builds(lambda run, stop: [*run, *stop], steps(IN_A_RUN, 6, 16), steps(IN_A_STOP, 0, 8))
A_WHOLE_LIFE: list[Step] = [
    *(("deploy", 0, 0), ("send", 1, 0), ("deploy", 2, 0), ("look", 0, 0)),
    *(("move", 0, 0), ("move", 1, 0), ("move", 0, 0), ("move", 1, 0), ("look", 0, 0)),
    *(("move", 1, 0), ("look", 0, 0), ("send", 1, 0), ("stop", 0, 0), ("send", 0, 0), ("move", 0, 3)),
    *(("orphan", 0, 0), ("send", 0, 0), ("force", 0, 0), ("look", 0, 0)),
]


@dataclass
class Ground:
    server: ApiServer = field(repr=False)
    folder: Path

    def line(self, at: int = 0, trouble: Trouble = Trouble.REFUSED) -> Line:
        """To a server on which nothing has happened yet."""
        self.server.objects = {"jobs": {}, "pods": {}, "events": {}}
        self.server.seen, self.server.faults = [], []
        return Line(self.server, at, trouble)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with an_api_server() as server:
        yield Ground(server, tmp_path_factory.mktemp("sequences"))


class Lived:
    """One sequence from its first step until nothing of the run is left, looked at after each step."""

    def __init__(self, ground: Ground, line: Line, sequence: list[Step], *, meanwhile: bool = False) -> None:
        self.line = line
        self.run = Supervised(line, ground.folder, TASKS, meanwhile=meanwhile, retries=RETRIES)
        self.rows, self.nature = self.run.records.tasks, self.run.nature
        self.made: set[str] = set()  # the uids of all Jobs there ever were
        self.stranger_uids: set[str] = set()
        for task in range(TASKS):
            self._put_stranger(f"theirs-{task}", task)
        self._put_stranger(job_name(self.run.run.run_uid, TASKS - 1, 1), TASKS - 1)
        self.strangers = deepcopy(self._strangers())
        for step in sequence:
            self.run.take(step)
            self._check()
        self._stop()
        self._clean_up()

    @property
    def end(self) -> tuple[int, dict[int, tuple[TaskStatus, str | None, int | None]]]:
        """How many Jobs there were, and what became of each task."""
        return len(self.made), {row.task: (row.status, row.reason, row.exit_code) for row in self.rows.values()}

    def _check(self) -> None:
        self.made |= {job["metadata"]["uid"] for job in self.nature.jobs}
        assert all(count == 1 for count in Counter(self.nature.living()).values()), "one live Job for each attempt"
        assert all(len(self.nature.attempts_alive(task)) < 2 for task in range(TASKS)), "no attempt beside another"
        assert not self.nature.without_job(), "what is deleted takes its pods with it"
        assert all(row.job_uid is None or row.job_uid in self.made for row in self.rows.values()), "theirs is not ours"
        assert self._strangers() == self.strangers, "what belongs to others is left alone"

    def _stop(self) -> None:
        for number in range(ROUNDS):
            self.run.take(("stop", 0, 0))
            if number == 3:
                self.run.claims_run_out()
            self._move_all()
            self._check()
            if self.run.take(("look", 0, 0)):
                break
        else:
            pytest.fail(f"the stop does not end: {self.rows}")
        assert (self.nature.running, self.nature.living()) == ([], []), "nothing runs after a stop"
        for row in self.rows.values():
            assert row.status.is_over
            if (code := self.nature.own_ends.get(row.job_uid or "")) is not None:
                assert row.status is (TaskStatus.FAILED if code else TaskStatus.SUCCEEDED), "it ended by itself"

    def _clean_up(self) -> None:
        """What has ended leaves the cluster once no copy of its request can come any more; but for pods that a person
        wanted to stay, and for a former attempt whose labels a person edited: that one goes by its time to live."""
        self.run.claims_run_out()
        for _ in range(4):
            self.run.take(("remove", 0, 0))
            self._move_all()
        on_record = {row.job_uid for row in self.rows.values()}
        edited = {uid for uid in self.nature.labels if uid not in on_record}
        jobs = [job for job in self.nature.jobs if job["metadata"]["uid"] not in edited]
        owned = [pod for pod in self.nature.pods if pod["metadata"]["uid"] not in self.nature.orphaned]
        left = [pod for pod in owned if owner_of(pod) not in edited]
        assert (jobs, left) == ([], [])

    def _move_all(self) -> None:
        for task in range(TASKS):
            self.nature.move(task, 3)

    def _put_stranger(self, name: str, task: int) -> None:
        """Another installation's, of a run and a task of the same name: somebody has copied a database."""
        labels = {INSTALLATION: "theirs", RUN_UID: self.run.run.run_uid, TASK: str(task), ATTEMPT: "1"}
        for kind, status in (("jobs", {"active": 1}), ("pods", {"phase": "Running"})):
            put = self.line.server.put(kind, {"metadata": {"name": name, "labels": labels}, "status": status})
            self.stranger_uids.add(put["metadata"]["uid"])

    def _strangers(self) -> list[Json]:
        objects = self.line.server.objects
        found = [each for kind in ("jobs", "pods") for each in objects[kind].values()]
        return [each for each in found if each["metadata"]["uid"] in self.stranger_uids]


# a second request came after a person had removed the labels of a running Job, and of a Job that had ended
STRIPPED: list[Step] = [("deploy", 0, 0), ("move", 0, 0), ("strip", 0, 0), ("send", 0, 0)]
STRIPPED_AT_ITS_END: list[Step] = [("deploy", 1, 0), ("end", 1, 0), ("strip", 1, 0), ("send", 1, 0), ("move", 0, 0)]
# a person took the Job from its pods; a late request made another one, whose uid no row has
TAKEN_AND_STRIPPED: list[Step] = [("deploy", 1, 0), *((name, 1, 0) for name in ("orphan", "send", "end", "strip"))]


@QUICKLY
@given(sequence=SEQUENCES)
@example(sequence=STRIPPED)
@example(sequence=TAKEN_AND_STRIPPED)
@example(sequence=STRIPPED_AT_ITS_END)
def test_a_stop_ends_every_task_and_leaves_no_pod(ground: Ground, sequence: list[Step]) -> None:
    Lived(ground, ground.line(), sequence)


@QUICKLY
@given(sequence=SEQUENCES, at=st.integers(1, 60), trouble=st.sampled_from(Trouble))
def test_the_same_when_a_request_fails_or_somebody_dies_and_the_cluster_goes_on(
    ground: Ground, sequence: list[Step], at: int, trouble: Trouble
) -> None:
    Lived(ground, ground.line(at, trouble), sequence, meanwhile=True)


@QUICKLY
@given(sequence=SEQUENCES, at=st.integers(0, 10_000), trouble=st.sampled_from(DEATHS))
@pytest.mark.long
def test_the_end_is_the_same_wherever_somebody_dies(
    ground: Ground, sequence: list[Step], at: int, trouble: Trouble
) -> None:
    """A request that fails may be made up for by the next look only, and a stop may come before that."""
    line = ground.line()
    expected = Lived(ground, line, sequence).end
    assert Lived(ground, ground.line(1 + at % len(line.asked), trouble), sequence).end == expected


@pytest.mark.system
@pytest.mark.parametrize("trouble", DEATHS)
def test_a_crash_at_any_request_gives_the_same_end(ground: Ground, trouble: Trouble) -> None:
    """One runs until it is stopped, one ends by itself and is orphaned before, and one finds its name taken."""
    line = ground.line()
    expected = Lived(ground, line, A_WHOLE_LIFE).end
    for at in range(1, len(line.asked) + 1):
        assert Lived(ground, ground.line(at, trouble), A_WHOLE_LIFE).end == expected, line.asked[at - 1]
