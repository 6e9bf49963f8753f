"""Answers to commands for runs and audits, at every door."""

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.states import Intent


class Started(Message):
    """A run with its history row; `created` is false if an earlier request with the same key made the row."""

    workflow_id: str
    first_execution_run_id: str
    run_id: int
    run_uid: str
    created: bool = True


class Resumed(Message):
    """`started` is false if the run's workflow was open all the time."""

    run: RunRecord
    started: bool


class Stopping(Message):
    """Answer to a stop. `told` says how the run's workflow gets the stop: `signal`; `cancel`, if Temporal refused the
    signal; `resume`, if no workflow was open; or `later: PROBLEM`, from the database, if Temporal did not answer.
    """

    run_id: int
    run_uid: str
    intent: Intent
    told: str
    not_on_record: str | None = Field(
        default=None, description="the problem of the database, for which the workflow puts the stop on record later"
    )


class AuditStarted(Message):
    """An audit under way. `audit` is its workflow's id."""

    audit: str
