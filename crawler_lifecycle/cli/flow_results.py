"""The command for results of flows, which lists the named jobs without a result."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler_lifecycle.cli.common import open_context, print_json, print_to_stderr, standard_options
from crawler_lifecycle.cli.failures import REFUSED, fail
from crawler_lifecycle.cli.flow_options import flow_argument, jobs_argument
from crawler_lifecycle.cli.flow_reading import open_flows
from crawler_lifecycle.cli.remote.choice import open_api

if TYPE_CHECKING:
    from crawler_lifecycle.contract.flows.answers import MemberRecord


@click.command()
@flow_argument
@jobs_argument
@standard_options
def results(flow: str, jobs: tuple[str, ...], state: Path | None, as_json: bool) -> None:
    """Print the recorded results of FLOW's jobs, nested for sub-workflows. The output is JSON in any case.

    The exit status is 6 if one of JOBS has no result yet. A completed job without a result is named on stderr.

    \b
    Examples:
      crawlctl flow results nightly-2026-11-22 merge
      crawlctl flow results nightly-2026-11-22 | jq '.sites.de'
    """
    from crawler_lifecycle.contract.flows.values import untagged
    from crawler_lifecycle.services.flows.files import with_folders

    flows = open_flows(state)
    members = flows.members(flow, jobs) if jobs else ()
    recorded = flows.results(flow, jobs or None)
    content = untagged(recorded)
    print_json(
        content if open_api(state) else with_folders(content, open_context(state).installation.settings.files_folder)
    )
    lacking = {path: members_at for path in jobs if (members_at := _without_result(path, recorded, members))}
    message = "; ".join(_reason(path, members_at) for path, members_at in lacking.items())
    if any(not _are_completed(members_at) for members_at in lacking.values()):
        fail(message, REFUSED, as_json=as_json)
    elif message:
        print_to_stderr(message)


def _without_result(path: str, recorded: Mapping[str, Any], members: "Sequence[MemberRecord]") -> "list[MemberRecord]":
    """Return the members that the path names, if none of these members has a result."""
    at_path = [job for job in members if job.path == path or job.path.startswith(f"{path}/")]
    is_job = any(job.path == path for job in at_path)
    return [] if path in recorded and (is_job or recorded[path]) else at_path


def _are_completed(members: "Sequence[MemberRecord]") -> bool:
    from crawler_lifecycle.contract.flows.states import MemberState

    return all(job.state is MemberState.COMPLETED for job in members)


def _reason(path: str, members: "Sequence[MemberRecord]") -> str:
    """Return why the path has no result."""
    from collections import Counter

    from crawler_lifecycle.cli.flow_lines import counts

    if len(members) > 1:
        return f"{path!r} has no result: its jobs are {counts(Counter(job.state for job in members))}"
    if _are_completed(members):
        return f"{path!r} has no result: the job is completed, and has returned nothing"
    return f"{path!r} has no result: the job is {members[0].state}"
