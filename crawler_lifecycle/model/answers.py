"""Answers to commands for runs, audits and the installation, at every door."""

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.limits import LimitRecord
from crawler_lifecycle.model.records import RunRecord, RunSummary
from crawler_lifecycle.model.states import Intent


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


class Check(Message):
    """The result for a part. `line` describes the part or, unless `ok`, its fault and the remedy."""

    part: str
    ok: bool
    line: str
    because_of: str | None = Field(default=None, description="other part, whose fault keeps this part from a check")


class ClusterPlaces(Message):
    """Use for a cluster with a fixed number of places."""

    taken: int
    total: int
    waiting: int = Field(description="jobs that wait for a place")


class CrawlerEntries(Message):
    """The catalogue, with hidden values for environment variables."""

    crawlers: list[Crawler]
    problem: str | None = Field(description="why the catalogue is not usable as it stands; none: it is")


class InstallationView(Message):
    """An installation's capacity, and the runs without capacity."""

    installation: str = Field(description="UUID of the installation")
    limits: LimitRecord = Field(description="caps and pause of the installation, with the present use")
    open_runs: int = Field(
        description="runs that are not over, with those of flows; from a thousand on, those that have begun or wait "
        "for their permit"
    )
    runs_in_line: int = Field(description="runs that wait for their permit, whichever scope holds them")
    places: ClusterPlaces | None = Field(
        description="places for jobs in the cluster; null: the cluster has no fixed number of places, such as "
        "Kubernetes, or could not be read"
    )
    saturated_runs: int = Field(description="runs that have waited for room in the cluster for five minutes or longer")
    more_saturated_runs: bool = Field(
        default=False, description="whether there may be more: up to 500 that wait for one cause are counted"
    )
    saturated: list[RunSummary] = Field(description="the saturated runs that wait longest, each with its waiting cause")


class Stopping(Message):
    """Answer to a stop. The field `told` says how the run's workflow gets the stop: `signal`; `cancel`, if Temporal
    refused the signal; `resume`, if no workflow was open; or `later: PROBLEM`, from the database, if Temporal did not
    answer.
    """

    run_id: int
    run_uid: str
    intent: Intent
    told: str
    not_on_record: str | None = Field(
        default=None, description="the problem of the database, for which the workflow records the stop later"
    )


class AuditStarted(Message):
    """An audit under way. `audit` is its workflow's id."""

    audit: str
