"""How long a real Temporal server keeps closed workflows, and whether that is long enough."""

from datetime import timedelta

import pytest
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.assembly.checks import check_retention
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.settings import Settings
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
