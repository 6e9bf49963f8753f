"""Client of a scheduler service, ours or a company's: `ports.Deployer` over HTTP.

Only an answer that is final by the service's contract is a permanent error. Any other answer (a time-out, a proxy's
page, a wrong token, a wrong address) says nothing about the request: the caller asks again once an operator has mended
the obstacle, and no run ends because of it.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from crawler_lifecycle.adapters.http_deadline import DeadlineTransport
from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.deployment import Crawler, Deployment, DeploymentRequest, Problem, checked_token
from crawler_lifecycle.errors import BadInput, Conflict, NotReady, Refused, TemporaryError
from crawler_lifecycle.logs import without_credentials

M = TypeVar("M", bound=BaseModel)

FINAL = (400, 413, 422)
WRONG_TOKEN = (401, 403)
LARGEST_ANSWER = 16 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    @property
    def problem(self) -> Problem | None:
        """Return the service's problem; None if the answer comes from another program."""
        try:
            return Problem.model_validate_json(self.body)
        except ValidationError:
            return None


class CrawlerNames(Message):
    crawlers: list[str]
    problem: str | None = None


class SchedulerClient:
    """Client for many threads that keeps its connections. `timeout` limits one whole request."""

    def __init__(self, url: str, token: str, timeout: float) -> None:
        self._url = without_credentials(url.rstrip("/"))
        self._timeout = timeout
        try:
            self._http = httpx.Client(
                base_url=url.rstrip("/"),
                headers={"Authorization": f"Bearer {checked_token(token)}"},
                timeout=_shares(timeout),
                transport=DeadlineTransport(timeout),
            )
        except httpx.InvalidURL as error:
            raise NotReady(f"CRAWLER_SCHEDULER__URL: {self._url!r} is not an address: {error}") from None
        if self._http.base_url.scheme not in ("http", "https") or not self._http.base_url.host:
            expected = "expected an address such as http://127.0.0.1:8310"
            raise NotReady(f"CRAWLER_SCHEDULER__URL: {expected}, not {self._url!r}")

    def close(self) -> None:
        self._http.close()

    def crawler(self, name: str) -> Crawler:
        answer = self._ask("GET", "/v1/crawler", params={"name": name})
        if answer.status in (404, 422) and (problem := answer.problem) and problem.field:
            raise BadInput("crawler", problem.detail)
        return self._result(Crawler, answer)

    def crawler_names(self) -> list[str]:
        return self._result(CrawlerNames, self._ask("GET", "/v1/crawlers")).crawlers

    def crawlers(self) -> list[Crawler]:
        """Return the catalogue without entries removed meanwhile."""
        found = []
        for name in self.crawler_names():
            with suppress(BadInput):
                found.append(self.crawler(name))
        return found

    def deploy(self, request: DeploymentRequest) -> Deployment:
        headers = {"Content-Type": "application/json", "Idempotency-Key": request.key}
        answer = self._ask("POST", "/v1/deployments", content=request.model_dump_json(), headers=headers)
        if answer.status == 409 and (problem := answer.problem):
            raise Conflict(problem.detail)
        if answer.status in FINAL and (problem := answer.problem):
            detail = f"{problem.field}: {problem.detail}" if problem.field else problem.detail
            raise Refused(detail, cause=problem.cause)
        deployment = self._result(Deployment, answer)
        if deployment.key != request.key:
            raise TemporaryError(f"the scheduler service at {self._url} answered for {deployment.key}: it is broken")
        return deployment

    def check(self) -> str:
        """Raise NotReady for a wrong token, which only a person can mend and no other call reports."""
        ready = self._ask("GET", "/readyz")
        if ready.status != 200:
            raise self._unusable(ready)
        answer = self._ask("GET", "/v1/crawlers")
        if answer.status in WRONG_TOKEN:
            raise NotReady(self._unusable(answer).message)
        names = self._result(CrawlerNames, answer)
        line = f"scheduler service at {self._url}, {len(names.crawlers)} crawlers in its catalogue"
        if names.problem:
            raise NotReady(f"the catalogue was not read again, its last good state is in use: {names.problem}")
        return line

    def _ask(self, method: str, path: str, **content: Any) -> Answer:
        try:
            with self._http.stream(method, path, **content) as response:
                return Answer(response.status_code, b"".join(self._chunks(response)))
        except httpx.TimeoutException as error:
            raise TemporaryError(self._silent(f"no answer in {self._timeout:g} s")) from error
        except httpx.HTTPError as error:
            raise TemporaryError(self._silent(str(error) or type(error).__name__)) from error

    def _chunks(self, response: httpx.Response) -> Iterator[bytes]:
        received = 0
        for chunk in response.iter_bytes():
            received += len(chunk)
            if received > LARGEST_ANSWER:
                raise TemporaryError(self._silent("its answer does not end"))
            yield chunk

    def _result(self, model: type[M], answer: Answer) -> M:
        if answer.status not in (200, 201):
            raise self._unusable(answer)
        try:
            return model.model_validate_json(answer.body)
        except ValidationError as error:
            raise TemporaryError(
                f"the scheduler service at {self._url} answers {answer.status} without a {model.__name__}: "
                "does it keep to its contract?"
            ) from error

    def _silent(self, why: str) -> str:
        return f"the scheduler service at {self._url} cannot be reached: {why}; is it running?"

    def _unusable(self, answer: Answer) -> TemporaryError:
        service = f"the scheduler service at {self._url} answers {answer.status}"
        if answer.status in WRONG_TOKEN:
            return TemporaryError(f"{service}: CRAWLER_SCHEDULER__TOKEN is not the token of the service")
        if problem := answer.problem:
            return TemporaryError(f"{service}: {problem.detail}", cause=problem.cause)
        return TemporaryError(f"{service}: is CRAWLER_SCHEDULER__URL its address?")


def _shares(timeout: float) -> httpx.Timeout:
    """Give every phase a share, so that a request cannot outlast its claim."""
    return httpx.Timeout(connect=0.15 * timeout, pool=0.15 * timeout, write=0.1 * timeout, read=0.6 * timeout)
