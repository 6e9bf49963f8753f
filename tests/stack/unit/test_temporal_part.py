"""Options of the embedded stack's Temporal server."""

from pathlib import Path

from crawler_lifecycle.stack.plan import Ports, StackPlan, temporal_part

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
