"""What doctor and an alert say about a real Temporal server: how long it keeps closed workflows, and how slow it is."""

from datetime import timedelta

import httpx
import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.assembly import checks
from crawler_lifecycle.assembly.checks import check_retention
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.processes import lifecycle
from crawler_lifecycle.settings import Settings
from crawler_lifecycle.settings.processes import MetricsSettings
from crawler_lifecycle.stack.plan import free_ports
from crawler_lifecycle.temporal.engine import Engine


@pytest.fixture
def engine(real_time: WorkflowEnvironment) -> Engine:
    variables = {
        "TEMPORAL_ADDRESS": real_time.client.service_client.config.target_host,
        "TEMPORAL_NAMESPACE": real_time.client.namespace,
    }
    return Engine(variables, "nobody")


def settings(keep_days: int) -> Settings:
    """On Kubernetes, with ended jobs that stay for this time."""
    return Settings.model_validate({"cluster": {"kind": "kubernetes"}, "kubernetes": {"keep_days": keep_days}})


async def test_a_retention_is_extended_and_never_shortened(engine: Engine) -> None:
    await engine.extend_retention(timedelta(days=20))
    await engine.extend_retention(timedelta(days=2))
    assert await engine.retention() == timedelta(days=20)
    assert await check_retention(engine, settings(20)) == "closed workflows stay for 20 days"


async def test_a_retention_that_is_too_short_is_refused_with_the_command(engine: Engine) -> None:
    await engine.extend_retention(timedelta(days=20))
    with pytest.raises(NotReady) as refusal:
        await check_retention(engine, settings(21))
    assert refusal.value.message == (
        "namespace default keeps closed workflows for 20 days, and the audit and the results of schedules need 21 "
        "days: temporal operator namespace update --namespace default --retention 21d"
    )


async def test_a_slow_answer_is_reported(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "namespace default" in await checks._temporal(engine)
    monkeypatch.setattr(checks, "SLOW_SECONDS", 0.0)
    with pytest.raises(NotReady, match=r"Temporal at 127.0.0.1:\d+ is slow: an answer took \d"):
        await checks._temporal(engine)


async def test_the_sdk_has_the_metric_of_the_alert_in_milliseconds(real_time: WorkflowEnvironment) -> None:
    (port,) = free_ports(1)
    runtime = lifecycle._runtime(MetricsSettings(host="127.0.0.1", port=port))
    client = await Client.connect(real_time.client.service_client.config.target_host, runtime=runtime)
    await client.count_workflows()
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = (await http.get(f"http://127.0.0.1:{port}/metrics")).text
    sizes = {
        float(line.partition('le="')[2].partition('"')[0])
        for line in answer.splitlines()
        if line.startswith("temporal_request_latency_bucket")
    }
    assert {50.0, 10000.0} <= sizes
