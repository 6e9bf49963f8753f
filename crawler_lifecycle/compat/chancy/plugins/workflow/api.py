"""Chancy's routes for workflows, for your own ASGI program. The service itself has `/v1/flows`."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypedDict

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from crawler_lifecycle.client.workflows import WorkflowClient
from crawler_lifecycle.flows import StepJob, Workflow, WorkflowStep


class Route(TypedDict):
    """A route. The endpoint takes the request, and by keywords `chancy` and `worker`."""

    path: str
    endpoint: Callable[..., Any]
    methods: list[str]
    name: str


class WorkflowApiPlugin:
    """Two routes without a check for rights: the program with the routes has to check its callers."""

    def __init__(self, api: object = None) -> None:
        self.api = api

    def name(self) -> str:
        return "workflow"

    def routes(self) -> list[Route]:
        return [
            Route(path="/api/v1/workflows", endpoint=self.get_workflows, methods=["GET"], name="get_workflows"),
            Route(path="/api/v1/workflows/{id}", endpoint=self.get_workflow, methods=["GET"], name="get_workflow"),
        ]

    @staticmethod
    async def get_workflows(request: Request, *, chancy: WorkflowClient, worker: object) -> Response:
        """Return up to 100 workflows without their steps, newest first; `limit` may ask for fewer."""
        del worker
        limit = request.query_params.get("limit", "100")
        if not limit.isdecimal() or int(limit) < 1:
            return JSONResponse({"title": "limit must be a positive integer"}, 422)
        return JSONResponse([_head(workflow) for workflow in await chancy.fetch(limit=min(int(limit), 100))])

    @staticmethod
    async def get_workflow(request: Request, *, chancy: WorkflowClient, worker: object) -> Response:
        """Return a workflow with its steps; 404 without such a workflow."""
        del worker
        workflow = await chancy.fetch_one(request.path_params["id"])
        if workflow is None:
            return JSONResponse({"error": "Workflow not found"}, 404)
        return JSONResponse({**_head(workflow), "steps": {name: _step(step) for name, step in workflow}})


def _head(workflow: Workflow) -> dict[str, Any]:
    return {
        "id": workflow.id,
        "name": workflow.name,
        "state": workflow.state,
        "created_at": _text(workflow.created_at),
        "updated_at": _text(workflow.updated_at),
    }


def _step(step: WorkflowStep) -> dict[str, Any]:
    job = step.job
    return {
        "step_id": step.step_id,
        "dependencies": step.sources,
        "state": step.state,
        "job_id": step.job_id,
        "job": {
            "func": job.function.replace(":", ".") if isinstance(job, StepJob) else job.title,
            "kwargs": job.arguments if isinstance(job, StepJob) else None,
            "queue": job.queue if isinstance(job, StepJob) else None,
            "priority": job.priority,
            "max_attempts": job.retry.max_attempts,
        },
    }


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
