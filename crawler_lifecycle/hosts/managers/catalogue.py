"""Catalogue: refuses requests against the crawler catalogue before their starts are recorded."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic

from crawler_lifecycle.clusters.ports import Deployer
from crawler_lifecycle.errors import PermanentError, TemporaryError
from crawler_lifecycle.flows.model.turns import Start
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import PROJECT, RunRequest
from crawler_lifecycle.runs.rules.plan import RunLimits, planned

logger = logging.getLogger(__name__)
KNOWN_SECONDS = 5.0  # an entry may change: later starts read the catalogue again


@dataclass
class Catalogue:
    """The catalogue for a host's managers. `deployer`: None if the host knows no scheduler service."""

    deployer: Deployer | None
    limits: RunLimits
    _entries: dict[str, tuple[float, Crawler | PermanentError]] = field(default_factory=dict)

    def refusals(self, starts: Sequence[Start]) -> dict[int, str]:
        """Return messages for impossible requests, by number. An absent catalogue refuses no request."""
        refused: dict[int, str] = {}
        if self.deployer is None:
            return refused
        for start in starts:
            try:
                request = self.preferred(RunRequest.model_validate(start.request.model_dump(exclude_none=True)))
                planned(request, self._entry(self.deployer, request.crawler), self.limits)
            except TemporaryError as error:
                logger.info("requests are not checked before their starts: %s", error.message)
                break  # the runs' own workflows wait for the catalogue
            except PermanentError as error:
                refused[start.number] = error.message
        return refused

    def may_have_preferred(self, request: RunRequest) -> bool:
        """Return whether `preferred` reads the catalogue for the request."""
        return self.deployer is not None and any(label.startswith(PROJECT) for label in request.labels)

    def preferred(self, request: RunRequest) -> RunRequest:
        """Return the request for the entry of its project, if there is such an entry; otherwise, the request itself."""
        for project in (label.removeprefix(PROJECT) for label in request.labels if label.startswith(PROJECT)):
            name = f"{request.crawler}@{project}"
            if self.deployer is not None and self._is_of_project(self.deployer, name, project):
                return request.model_copy(update={"crawler": name})
        return request

    def _is_of_project(self, deployer: Deployer, name: str, project: str) -> bool:
        try:
            return str(self._entry(deployer, name).project) == project
        except PermanentError:
            return False

    def _entry(self, deployer: Deployer, name: str) -> Crawler:
        known = self._entries.get(name)
        if known is None or monotonic() > known[0]:
            known = self._entries[name] = monotonic() + KNOWN_SECONDS, _read(deployer, name)
        if isinstance(known[1], PermanentError):
            raise known[1]
        return known[1]


def _read(deployer: Deployer, name: str) -> Crawler | PermanentError:
    try:
        return deployer.crawler(name)
    except PermanentError as error:
        return error
