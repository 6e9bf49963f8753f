"""Absence of Jobs that a list does not show. Only a Job that the API server itself denies is absent."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from crawler_lifecycle.adapters.kubernetes.answers import Missing
from crawler_lifecycle.adapters.kubernetes.api import PAGE, Api
from crawler_lifecycle.adapters.kubernetes.decoding import JOBS, METADATA, NAMESPACES, Unreadable
from crawler_lifecycle.adapters.kubernetes.naming import METADATA_LIST
from crawler_lifecycle.adapters.kubernetes.objects import Job
from crawler_lifecycle.errors import TemporaryError

MOST_BY_NAME = 20
AT_ONCE = 4
NAMES_IN_A_PAGE = 10 * PAGE  # nothing but metadata: with pages as of whole Jobs it would be as many lists again

Pages = Callable[..., Iterator[bytes]]  # those of `Api.pages`
Uids = Mapping[str, str | None]  # by the name of the Job, as on record


@dataclass(frozen=True, slots=True)
class Absence:
    api: Api
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(AT_ONCE, thread_name_prefix="by-name"))

    def found(self, uids: Uids, pages: Pages) -> Iterator[tuple[str, Job | None]]:
        """Those of these Jobs that are there after all, each by its name. None: it is there, and cannot be read."""
        self._check_namespace()
        there = list(uids) if len(uids) <= MOST_BY_NAME else self._there(uids, pages)
        for name, (is_there, job) in zip(there, self.pool.map(self._read, there), strict=True):
            if is_there:
                yield name, job

    def _read(self, name: str) -> tuple[bool, Job | None]:
        try:
            return True, JOBS.one(self.api.get(self.api.batch("jobs", name)))
        except Missing:
            return False, None
        except Unreadable:
            return True, None

    def _there(self, uids: Uids, pages: Pages) -> list[str]:
        """Those among all Jobs of the namespace, without their labels: those may have been changed.

        A Job with another uid than the one on record only has the name."""
        listed: dict[str, str] = {}
        for body in pages(self.api.batch("jobs"), {"limit": NAMES_IN_A_PAGE}, accept=METADATA_LIST):
            page = METADATA.page(body)
            listed.update((each.metadata.name, each.metadata.uid) for each in page.whole)
            listed.update((each.name, each.uid) for each in page.broken)
        if "" in listed:
            raise Unreadable("the namespace has a Job without a name: what is absent cannot be told")
        return [name for name, uid in uids.items() if name in listed and not (uid and listed[name] not in ("", uid))]

    def _check_namespace(self) -> None:
        """In a namespace that is gone, being deleted, or of another cluster, everything seems to be absent."""
        name = self.api.namespace
        try:
            namespace = NAMESPACES.one(self.api.get(self.api.core()))
        except Missing as error:
            raise TemporaryError(f"there is no namespace {name}: is this the right cluster?") from error
        phase = namespace.status.phase if namespace.status else None
        if namespace.metadata.deletion_timestamp or phase != "Active" or namespace.metadata.name != name:
            raise TemporaryError(f"namespace {name} is not active ({phase}): nothing in it counts as absent")
