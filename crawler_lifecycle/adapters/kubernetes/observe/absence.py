"""Check of Jobs that a list does not show. A Job is absent only if the API server denies the Job by its name."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from crawler_lifecycle.adapters.kubernetes.http.answers import Missing
from crawler_lifecycle.adapters.kubernetes.http.api import PAGE, Api
from crawler_lifecycle.adapters.kubernetes.http.decoding import JOBS, METADATA, Unreadable
from crawler_lifecycle.adapters.kubernetes.naming import METADATA_LIST
from crawler_lifecycle.adapters.kubernetes.objects import Job
from crawler_lifecycle.adapters.kubernetes.observe.namespace import NamespaceCheck

MOST_BY_NAME = 20
AT_ONCE = 4
NAMES_IN_A_PAGE = 10 * PAGE  # metadata is small: pages as short as for whole Jobs would double the number of lists

Pages = Callable[..., Iterator[bytes]]  # the signature of `Api.pages`
Uids = Mapping[str, str | None]  # uids on record by the Jobs' names


@dataclass(frozen=True, slots=True)
class Absence:
    api: Api
    ground: NamespaceCheck
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(AT_ONCE, thread_name_prefix="by-name"))

    def present(self, uids: Uids, pages: Pages) -> Iterator[tuple[str, Job | None]]:
        """Yield name and Job for every Job that exists after all. The Job is None if the Job cannot be read."""
        self.ground.check()
        there = list(uids) if len(uids) <= MOST_BY_NAME else self._listed_names(uids, pages)
        reads = self.pool.map(self._read, there) if len(there) > 1 else map(self._read, there)
        for name, (is_there, job) in zip(there, reads, strict=True):
            if is_there:
                yield name, job

    def _read(self, name: str) -> tuple[bool, Job | None]:
        try:
            return True, JOBS.item(self.api.get(self.api.jobs_path(name)))
        except Missing:
            return False, None
        except Unreadable:
            return True, None

    def _listed_names(self, uids: Uids, pages: Pages) -> list[str]:
        """Return the names that a list of all Jobs shows, with or without our labels: users may have edited labels.

        A Job with another uid than the uid on record only shares the name.
        """
        listed: dict[str, str] = {}
        for body in pages(self.api.jobs_path(), {"limit": NAMES_IN_A_PAGE}, accept=METADATA_LIST):
            page = METADATA.page(body)
            listed.update((item.metadata.name, item.metadata.uid) for item in page.whole)
            listed.update((item.name, item.uid) for item in page.broken)
        if "" in listed:
            raise Unreadable("the namespace has a Job without a name: what is absent cannot be told")
        return [name for name, uid in uids.items() if name in listed and not (uid and listed[name] not in ("", uid))]
