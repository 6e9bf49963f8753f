"""Crawls of a flow, as its supervisor starts them."""

from typing import Any

from crawler_lifecycle.flows.rules.messages import AttemptRef, CrawlsStarted, StartCrawls
from crawler_lifecycle.model.naming import crawl_workflow_id
from crawler_lifecycle.runs.ports import NewRun
from tests.kit.data.flows import BOOKS, Flow
from tests.kit.service.rig import Rig


def start(rig: Rig, flow: Flow, *paths: str) -> CrawlsStarted:
    """Start the members' next attempts, or their attempts on record again."""
    rows = [flow.row(path) for path in paths]
    refs = [AttemptRef(number=row.number, generation=row.generation, attempt=max(1, row.attempt)) for row in rows]
    return rig.do(rig.flow_crawls.start_crawls, StartCrawls(flow=flow.flow, door=1, starts=tuple(refs)))


def id_of(flow: Flow, path: str) -> str:
    return crawl_workflow_id(flow.uid, flow.row(path).number, 1)


def make_run(rig: Rig, flow: Flow, path: str) -> Any:
    (request,) = [request for workflow_id, request in rig.supervisors.started if workflow_id == id_of(flow, path)]
    return rig.store.runs.create(NewRun(request, BOOKS, 1, id_of(flow, path), "first"))
