"""Chancy's routes for workflows, for your own ASGI program. The service itself has `/v1/flows`."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypedDict

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from crawler_lifecycle.client.workflows import WorkflowClient
from crawler_lifecycle.flows import StepJob, Workflow, WorkflowStep
from crawler_lifecycle.flows.rules.states import StepState


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
        """Return up to 100 workflows with counts for their steps, newest first; `limit` may ask for fewer.

        `before`: the previous page's last id. `pagination=true`: the page with its `next_cursor`.
        `filters` is refused.
        """
        del worker
        query = request.query_params
        if "filters" in query:
            return JSONResponse({"title": "filters are not known here: GET /v1/flows has state and search"}, 422)
        limit = query.get("limit", "100")
        if not limit.isdecimal() or int(limit) < 1:
            return JSONResponse({"title": "limit must be a positive integer"}, 422)
        most = min(int(limit), 100)
        try:
            workflows = await chancy.fetch(limit=most + 1, before=query.get("before") or None)
        except KeyError:
            return JSONResponse({"title": "before must be the id of a workflow"}, 422)
        page = [{**_head(workflow), **_numbers(workflow)} for workflow in workflows[:most]]
        if query.get("pagination") != "true":
            return JSONResponse(page)
        has_more = len(workflows) > most
        return JSONResponse({"items": page, "has_more": has_more, "next_cursor": page[-1]["id"] if has_more else None})

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


def _numbers(workflow: Workflow) -> dict[str, int]:
    """Return counts: all steps, steps without a start so far, and started or ended steps by Chancy's states."""
    states = [step.state for _, step in workflow if step.job_id is not None or step.state is not StepState.PENDING]
    numbers = {f"{state.value}_steps": states.count(state) for state in StepState}
    return {"total_steps": len(workflow), "waiting_steps": len(workflow) - len(states), **numbers}


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
