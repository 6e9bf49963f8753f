"""Outcome facts of an ended local job: its record about the end, and the result that its program wrote."""

import os

from crawler_lifecycle.clusters.adapters.regular_files import NotRegular, open_regular
from crawler_lifecycle.clusters.local.records import EndRecord, JobFolder, utc_time
from crawler_lifecycle.model.crawl_result import LARGEST_FILE, CrawlResult
from crawler_lifecycle.model.crawl_results import PROBLEM, read_result, too_long
from crawler_lifecycle.model.outcome_facts import LONGEST_MESSAGE, OutcomeFacts


def facts_of(ended: EndRecord, folder: JobFolder) -> OutcomeFacts:
    result, _ = result_of(folder)
    return OutcomeFacts(
        job_uid=ended.uid,
        succeeded=ended.reason is None,
        told_to_end=ended.stop_asked,
        reason=ended.reason,
        exit_code=ended.code,
        message=ended.message[-LONGEST_MESSAGE:] if ended.message else None,
        started_at=utc_time(ended.started_at) if ended.started_at else None,
        ended_at=utc_time(ended.at),
        result=result,
    )


def result_of(folder: JobFolder) -> tuple[CrawlResult | None, str | None]:
    """Return the program's result and the problem. Both are None if the program wrote no result.

    The program owns the file: a link or a pipe in its place is not opened. Raise OSError for a passing problem of the
    disk, which must not look like a program without a result.
    """
    try:
        with os.fdopen(open_regular(folder.result_path), "rb") as file:
            content = file.read(LARGEST_FILE + 1)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return None, None
    except (NotRegular, PermissionError) as error:
        return None, PROBLEM.format(f"it cannot be read: {error.strerror}")
    if len(content) > LARGEST_FILE:
        return None, PROBLEM.format(too_long(size))
    return read_result(content.decode(errors="replace"))
