"""Events and notices as the activities make them."""

from datetime import UTC, datetime
from uuid import uuid4

from crawler_lifecycle.model.flow_states import FlowEnd, FlowEvent, FlowFailure, FlowNotice, FlowState, MemberState
from crawler_lifecycle.model.notices import ExportEvent, Notice, NoticeKind
from crawler_lifecycle.model.records import Explanation
from crawler_lifecycle.model.states import ExportKind, RunStatus, TaskStatus


def an_event(event_id: str) -> ExportEvent:
    return ExportEvent(
        event_id=event_id,
        kind=ExportKind.RUN_ENDED,
        run_id=1,
        run_uid=str(uuid4()),
        crawler="books\n🕷",
        status=RunStatus.COMPLETED,
        reason="all_succeeded",
        tasks={TaskStatus.SUCCEEDED: 4},
        supporting_files="somewhere.zip",
        at=datetime.now(UTC),
    )


def a_notice(notice_id: str) -> Notice:
    return Notice(
        notice_id=notice_id,
        kind=NoticeKind.FINISHED,
        run_id=42,
        run_uid=str(uuid4()),
        crawler="books",
        status=RunStatus.FAILED,
        reason="tasks_failed",
        tasks={TaskStatus.SUCCEEDED: 3, TaskStatus.FAILED: 1, TaskStatus.LOST: 0},
        at=datetime.now(UTC),
        final=True,
        explanation=Explanation(text="task 3 FAILED with exit code 2", task=3, task_reason="exit_2", exit_code=2),
        outcome="failed",
        stats={"items": 3},
        result={"next": 7},
    )


def a_flow_end(reason: str = "no such table") -> FlowEnd:
    now = datetime.now(UTC)
    return FlowEnd(
        end=1,
        flow_id="nightly",
        flow_uid=str(uuid4()),
        name=None,
        family="shops",
        state=FlowState.DISCARDED,
        total=3,
        counts={MemberState.COMPLETED: 2, MemberState.DISCARDED: 1},
        started_at=now,
        elapsed_seconds=0.0,
        failures=(FlowFailure(path="load", state=MemberState.DISCARDED, reason=reason),),
        at=now,
    )


def a_flow_notice(notice_id: str) -> FlowNotice:
    return FlowNotice(notice_id=notice_id, **a_flow_end().model_dump())


def a_flow_event(event_id: str) -> FlowEvent:
    return FlowEvent(event_id=event_id, **a_flow_end().model_dump())
