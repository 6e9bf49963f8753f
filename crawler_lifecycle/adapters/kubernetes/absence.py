"""Is a Job that the list does not show really gone? Only what the API server itself denies is absent."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from crawler_lifecycle.adapters.kubernetes.answers import Missing
from crawler_lifecycle.adapters.kubernetes.api import PAGE, Api
from crawler_lifecycle.adapters.kubernetes.decoding import JOBS, METADATA, NAMESPACES, Unreadable
from crawler_lifecycle.adapters.kubernetes.naming import METADATA_LIST
from crawler_lifecycle.adapters.kubernetes.objects import Job
from crawler_lifecycle.errors import TemporaryError

MOST_BY_NAME = 20
NAMES_IN_A_PAGE = 10 * PAGE  # nothing but metadata: with pages as of whole Jobs it would be as many lists again

Pages = Callable[..., Iterator[bytes]]  # those of `Api.pages`


@dataclass(frozen=True, slots=True)
class Absence:
    api: Api

    def found(self, names: Sequence[str], pages: Pages) -> Iterator[tuple[str, Job | None]]:
        """Those of these Jobs that are there after all, each by its name; None: it is, but was not read."""
        self._check_namespace()
        if len(names) <= MOST_BY_NAME:
            yield from self._one_by_one(names)
            return
        there = self._names(pages)
        yield from ((name, None) for name in names if name in there)

    def _one_by_one(self, names: Sequence[str]) -> Iterator[tuple[str, Job]]:
        for name in names:
            try:
                yield name, JOBS.one(self.api.get(self.api.batch("jobs", name)))
            except Missing:
                continue

    def _names(self, pages: Pages) -> set[str]:
        """Of all Jobs of the namespace, without their labels: those may have been changed."""
        names: set[str] = set()
        for body in pages(self.api.batch("jobs"), {"limit": NAMES_IN_A_PAGE}, accept=METADATA_LIST):
            page = METADATA.page(body)
            names.update(each.metadata.name for each in page.whole)
            names.update(each.name for each in page.broken)
        if "" in names:
            raise Unreadable("the namespace has a Job without a name: what is absent cannot be told")
        return names

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
