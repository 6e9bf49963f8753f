"""Client for a scheduler service, ours or a company's: `clusters.ports.Deployer` over HTTP.

Only an answer that is final by the service's contract is a permanent error. Any other problem (a time-out, a proxy's
page, a wrong token, a wrong address) says nothing about the request: the error is temporary, the caller repeats the
request until an operator has mended the problem, and no run ends because of the problem.
"""

from contextlib import suppress
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from crawler_lifecycle.errors import BadInput, Conflict, NotReady, Refused, TemporaryError
from crawler_lifecycle.logs import without_credentials
from crawler_lifecycle.model.deployment import (
    Crawler,
    CrawlerNames,
    Deployment,
    DeploymentRequest,
    ManagerEntry,
    Problem,
    checked_token,
)
from crawler_lifecycle.transport.http_client import HttpAnswer, HttpClient

M = TypeVar("M", bound=BaseModel)

REFUSING_STATUSES = (400, 413, 422)  # final answers to a deployment
WRONG_TOKEN = (401, 403)
LARGEST_ANSWER = 16 << 20  # bytes


class SchedulerClient:
    """Client for many threads that keeps its connections. `timeout` limits a whole request."""

    def __init__(self, url: str, token: str, timeout: float) -> None:
        self._url = without_credentials(url.rstrip("/"))
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise NotReady(f"CRAWLER_SCHEDULER__URL: {self._url!r} is not an address: {error}") from None
        if address.scheme not in ("http", "https") or not address.host:
            expected = "expected an address such as http://127.0.0.1:8310"
            raise NotReady(f"CRAWLER_SCHEDULER__URL: {expected}, not {self._url!r}")
        self._base_url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {checked_token(token)}"}
        self._http = HttpClient(timeout)

    def close(self) -> None:
        self._http.close()

    def crawler(self, name: str) -> Crawler:
        """Return the crawler's entry. Raise BadInput if the service's catalogue has no good entry with this name."""
        answer = self._request("GET", "/v1/crawler", params={"name": name})
        # a problem without a field concerns the service or its address, and says nothing about the crawler
        if answer.status in (404, 422) and (problem := _problem(answer)) and problem.field:
            raise BadInput("crawler", problem.errors[0].detail if problem.errors else problem.detail)
        return self._result(Crawler, answer)

    def manager(self, name: str) -> ManagerEntry:
        """Return the crawl manager's entry. Raise BadInput if the service's catalogue has no good entry."""
        answer = self._request("GET", "/v1/manager", params={"name": name})
        problem = _problem(answer) if answer.status in (404, 422) else None
        if problem is not None and not problem.field:
            raise BadInput(
                "manager", f"there is no crawl manager {name!r}: the scheduler service has no catalogue of managers"
            )
        if problem is not None:
            raise BadInput("manager", problem.errors[0].detail if problem.errors else problem.detail)
        return self._result(ManagerEntry, answer)

    def crawler_names(self) -> list[str]:
        return self._names().crawlers

    def labels(self) -> list[str]:
        """Return the labels in the catalogue; none if the service does not list its labels."""
        return self._names().labels

    def only_installation(self) -> str | None:
        """Return the installation for which the service deploys; None if the service names no single installation."""
        return self._names().installation

    def crawlers(self) -> list[Crawler]:
        """Return the catalogue's entries, without entries that were removed after the list of names was read."""
        crawlers = []
        for name in self.crawler_names():
            with suppress(BadInput):
                crawlers.append(self.crawler(name))
        return crawlers

    def deploy(self, request: DeploymentRequest) -> Deployment:
        headers = {"Content-Type": "application/json", "Idempotency-Key": request.key}
        answer = self._request("POST", "/v1/deployments", content=request.model_dump_json(), headers=headers)
        if answer.status == 409 and (problem := _problem(answer)):
            raise Conflict(problem.detail)
        if answer.status in REFUSING_STATUSES and (problem := _problem(answer)):
            raise Refused(problem.detail, cause=problem.cause)
        deployment = self._result(Deployment, answer)
        if deployment.key != request.key:
            raise TemporaryError(f"the scheduler service at {self._url} answered for {deployment.key}: it is broken")
        return deployment

    def check(self) -> str:
        """Return a line about the service. Raise NotReady for a wrong token or a broken catalogue.

        Other calls raise a plain TemporaryError for a wrong token, because their callers repeat the request.
        """
        ready = self._request("GET", "/readyz")
        if ready.status != 200:
            raise self._unusable_answer(ready)
        answer = self._request("GET", "/v1/crawlers")
        if answer.status in WRONG_TOKEN:
            raise NotReady(self._unusable_answer(answer).message)
        names = self._result(CrawlerNames, answer)
        line = f"scheduler service at {self._url}, {len(names.crawlers)} crawlers in its catalogue"
        if names.problem:
            raise NotReady(
                f"the edited catalogue has an error, and its last valid version is still in use: {names.problem}"
            )
        return line

    def _names(self) -> CrawlerNames:
        return self._result(CrawlerNames, self._request("GET", "/v1/crawlers"))

    def _request(self, method: str, path: str, headers: dict[str, str] | None = None, **content: Any) -> HttpAnswer:
        headers = self._headers | (headers or {})
        try:
            return self._http.request(
                method, self._base_url + path, largest_answer=LARGEST_ANSWER, headers=headers, **content
            )
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise TemporaryError(
                f"the scheduler service at {self._url} cannot be reached: {why}; is it running?"
            ) from error

    def _result(self, model: type[M], answer: HttpAnswer) -> M:
        """Return the model in the answer. Raise TemporaryError for an answer without the model."""
        if answer.status not in (200, 201):
            raise self._unusable_answer(answer)
        try:
            return model.model_validate_json(answer.body)
        except ValidationError as error:
            raise TemporaryError(
                f"the scheduler service at {self._url} answers {answer.status} without a {model.__name__}: "
                "does it keep to its contract?"
            ) from error

    def _unusable_answer(self, answer: HttpAnswer) -> TemporaryError:
        """Return the error for an answer with another status than success."""
        service = f"the scheduler service at {self._url} answers {answer.status}"
        if answer.status == 403 and (problem := _problem(answer)):  # such as a token that may only read
            return TemporaryError(f"{service}: {problem.detail} (CRAWLER_SCHEDULER__TOKEN)")
        if answer.status in WRONG_TOKEN:
            return TemporaryError(f"{service}: CRAWLER_SCHEDULER__TOKEN is not a token of the service")
        if problem := _problem(answer):
            return TemporaryError(f"{service}: {problem.detail}", cause=problem.cause)
        return TemporaryError(f"{service}: is CRAWLER_SCHEDULER__URL its address?")


def _problem(answer: HttpAnswer) -> Problem | None:
    """Return the service's problem; None if the answer comes from another program."""
    try:
        return Problem.model_validate_json(answer.body)
    except ValidationError:
        return None
