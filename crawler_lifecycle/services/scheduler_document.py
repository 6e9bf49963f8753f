"""Examples and descriptions for the scheduler service's OpenAPI document."""

from typing import Any

from fastapi import Body

from crawler_lifecycle.contract.deployment import Deployment
from crawler_lifecycle.services.problems import Responses, problems

DESCRIPTION = """
Runs jobs in a cluster. A repeated request runs no second job. A company may use its own service in place of this
reference service: this document is the contract.

- **One key, one job, always.** The key of a deployment is `{run_uid}:{task}:{attempt}`; the header
  `Idempotency-Key` repeats the key. Equal requests with a key get the same job, also at the same time and after a
  restart of the service.
- **Errors** are `application/problem+json`. 400, 409, 413 and 422 are final: no job was made, and none will be made.
  After any other answer, or none, the result is unknown, and the caller repeats the request with the same key.
- **Jobs** carry the labels `installation`, `run_uid`, `task` and `attempt`, by which the jobs are found again.
"""

RUN_UID = "5b0c9c6e-6f0e-4f57-9a51-0d4c2f6f3a11"
CRAWLER = {
    "name": "bookshop",
    "command": ["python", "/opt/crawlers/bookshop_spider.py"],
    "environment": {"LANG": "C.UTF-8"},
    "resources": {"cpu": "250m", "memory": "256Mi"},
    "processes": 4,
}
REQUEST = Body(
    openapi_examples={
        "main job": {
            "summary": "The main job of a run of four tasks",
            "value": {
                "installation": "0d4c7a52-3c55-4d8e-8a6f-1f0b4f6b7c10",
                "run_id": 42,
                "run_uid": RUN_UID,
                "task": 0,
                "tasks": 4,
                "attempt": 1,
                "crawler": CRAWLER,
                "arguments": {"site": "https://books.example"},
                "deadline_seconds": 3600,
            },
        }
    }
)


def _example(value: object) -> dict[str, Any]:
    return {"content": {"application/json": {"example": value}}}


def _deployment(description: str, created: bool) -> dict[str, Any]:
    key = f"{RUN_UID}:0:1"
    job = {"job_name": f"crawl-{RUN_UID.replace('-', '')}-0-1", "job_uid": "9f1b7d0a-6f0b-4c39-8a5e-2f4f7f0f9d21"}
    return {"model": Deployment, "description": description, **_example({"key": key, **job, "created": created})}


DEPLOYED: Responses = {
    201: _deployment("The job was made.", True),
    200: _deployment("An earlier request with this key made the job.", False),
}
ENTRY: Responses = {200: _example(CRAWLER)}
MANAGER: Responses = {
    200: _example({"name": "shops", "class": "my_project.managers:Shops", "arguments": [], "queue": "default"})
}
COMMON = problems(_401="No valid bearer token.", _503="The result is not known; try again later (see Retry-After).")
