"""Proof that Jobs are absent: a Job is absent only if the API server denies the Job by its name.

A look calls `Absence` for watched Jobs that a list by labels does not show, since users may have edited the labels.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from crawler_lifecycle.adapters.kubernetes.http.answers import Missing
from crawler_lifecycle.adapters.kubernetes.http.api import PAGE, Api
from crawler_lifecycle.adapters.kubernetes.http.decoding import JOBS, METADATA, Unreadable
from crawler_lifecycle.adapters.kubernetes.naming import METADATA_LIST
from crawler_lifecycle.adapters.kubernetes.objects import Job
from crawler_lifecycle.adapters.kubernetes.observe.namespace import NamespaceCheck

MOST_BY_NAME = 20  # for more missing Jobs, a list with all names takes fewer requests
THREADS = 4
NAMES_IN_A_PAGE = 10 * PAGE  # names are small: pages as short as for whole Jobs would double the number of lists

CountPages = Callable[[Iterable[bytes]], Iterator[bytes]]  # passes a list's pages on, and counts the pages of the look
UidsByName = Mapping[str, str | None]  # the Jobs' recorded uids by name; None: no uid is recorded


@dataclass(frozen=True, slots=True)
class Absence:
    api: Api
    namespace: NamespaceCheck
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="by-name"))

    def present_jobs(self, uids: UidsByName, count_pages: CountPages) -> Iterator[tuple[str, Job | None]]:
        """Yield name and Job for every Job that is not absent. The Job is None if the Job exists and is unreadable.

        Raise TemporaryError if the namespace is not the recorded namespace, or is being deleted: then a missing Job
        proves nothing.
        """
        self.namespace.check()
        candidates = list(uids) if len(uids) <= MOST_BY_NAME else self._listed_names(uids, count_pages)
        reads = self.pool.map(self._read, candidates) if len(candidates) > 1 else map(self._read, candidates)
        for name, (exists, job) in zip(candidates, reads, strict=True):
            if exists:
                yield name, job

    def _read(self, name: str) -> tuple[bool, Job | None]:
        """Return whether the Job exists, and the Job unless it is unreadable."""
        try:
            return True, JOBS.item(self.api.get(self.api.jobs_path(name)))
        except Missing:
            return False, None
        except Unreadable:
            return True, None

    def _listed_names(self, uids: UidsByName, count_pages: CountPages) -> list[str]:
        """Return which of these Jobs a list of all Jobs in the namespace shows, whatever their labels.

        A Job with another uid than the recorded uid only shares the name, and is left out.
        """
        listed: dict[str, str] = {}  # uids by name; empty if unreadable
        pages = self.api.pages(self.api.jobs_path(), {"limit": NAMES_IN_A_PAGE}, accept=METADATA_LIST)
        for body in count_pages(pages):
            page = METADATA.page(body)
            listed.update((item.metadata.name, item.metadata.uid) for item in page.whole)
            listed.update((item.name, item.uid) for item in page.broken)
        if "" in listed:
            raise Unreadable("the namespace has a Job without a name: what is absent cannot be known")

        def may_be_ours(name: str, uid_on_record: str | None) -> bool:
            return not uid_on_record or listed[name] in ("", uid_on_record)

        return [name for name, uid in uids.items() if name in listed and may_be_ours(name, uid)]
