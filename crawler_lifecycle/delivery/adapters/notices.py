"""Pusher that appends notices to a file and to the log, for installations without a front end."""

import logging
from pathlib import Path

from crawler_lifecycle.delivery.adapters.json_lines import append_once, check_writable
from crawler_lifecycle.model.flow_announcements import FlowNotice
from crawler_lifecycle.model.notices import AnyNotice, Notice

logger = logging.getLogger("crawler_lifecycle.notices")


class FilePusher:
    """Pusher that writes every notice once, as a line of JSON to the file and as a sentence to the log."""

    name = "file"

    def __init__(self, path: Path) -> None:
        self._path = path

    def send(self, notice: AnyNotice) -> None:
        if append_once(self._path, notice.model_dump_json(), notice.notice_id):
            if isinstance(notice, Notice):
                logger.info("%s", _sentence(notice), extra={"run_id": notice.run_id})
            else:
                logger.info("%s", _sentence_about_flow(notice))

    def check(self) -> str:
        check_writable(self._path.parent)
        return f"{self.name} {self._path}"


def _sentence(notice: Notice) -> str:
    tasks = ", ".join(f"{count} {status}" for status, count in notice.tasks.items() if count)
    reason = f" ({notice.reason})" if notice.reason else ""
    explanation = f"; {notice.explanation.text}" if notice.explanation else ""
    return f"{notice.crawler} {notice.kind}: {notice.status}{reason}; tasks: {tasks or 'none'}{explanation}"


def _sentence_about_flow(notice: FlowNotice) -> str:
    members = ", ".join(f"{count} {state}" for state, count in notice.counts.items())
    failures = "".join(f"; {failure.path}: {failure.reason or failure.state}" for failure in notice.failures)
    return f"flow {notice.flow_id} ended: {notice.state}; members: {members or 'none'}{failures}"
