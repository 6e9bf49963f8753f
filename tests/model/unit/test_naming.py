"""Names are the same whoever makes them, and fit where they have to."""

import re
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.model.naming import event_id, job_name

NUMBERS = st.integers(min_value=0, max_value=99_999)


@given(st.uuids(), NUMBERS, NUMBERS)
def test_a_job_name_is_a_dns_label(run: UUID, task: int, attempt: int) -> None:
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", job_name(str(run), task, attempt))


@given(st.sets(st.tuples(st.uuids(), NUMBERS, NUMBERS), max_size=50))
def test_no_two_jobs_share_a_name(keys: set[tuple[UUID, int, int]]) -> None:
    assert len({job_name(str(run), task, attempt) for run, task, attempt in keys}) == len(keys)


@given(st.uuids(), st.sampled_from(["started", "progress"]), st.integers(min_value=1, max_value=1_000))
def test_an_event_keeps_its_id(run: UUID, kind: str, number: int) -> None:
    first = event_id(str(run), kind, number)
    assert first == event_id(str(run), kind, number)
    assert first != event_id(str(run), kind, number + 1)
