"""Options and variables of the embedded stack's parts."""

from pathlib import Path

import pytest

from crawler_lifecycle.stack.plan import Ports, StackPlan, service_part, temporal_part

EXPECTED = [
    "history.transferProcessorMaxPollRPS=1000",
    "history.timerProcessorMaxPollRPS=1000",
    "system.enableActivityEagerExecution=true",
]


def test_the_server_has_our_dynamic_configuration(tmp_path: Path) -> None:
    """The default of a later server may be another, so every value is on the command line."""
    prefix = "--dynamic-config-value="
    options = temporal_part(StackPlan(tmp_path, Ports.free(), {}, "", "")).command
    assert [option.removeprefix(prefix) for option in options if option.startswith(prefix)] == EXPECTED


@pytest.mark.parametrize(
    ("workers", "dispatchers", "watchers"), [("9100", "9101", "9102"), ("0", "0", "0"), ("", None, None)]
)
def test_each_part_has_a_health_port_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: str, dispatchers: str | None, watchers: str | None
) -> None:
    """Port 0 lets every part choose a free one."""
    monkeypatch.setenv("CRAWLER_HEALTH__PORT", workers)
    plan = StackPlan(tmp_path, Ports.free(), {}, "", "deploy")
    plan.environment["CRAWLER_SCHEDULER__TOKEN"] = "read"
    ports = [service_part(plan, name).own_variables.get("CRAWLER_HEALTH__PORT") for name in ("dispatcher", "watcher")]
    assert ports == [dispatchers, watchers]
    assert "CRAWLER_HEALTH__PORT" not in service_part(plan, "api").own_variables
