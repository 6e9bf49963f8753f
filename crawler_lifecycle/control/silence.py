"""The runtime of Temporal's SDK for a process that is no worker."""

from functools import cache

from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig


@cache
def silent_runtime() -> Runtime:
    """Return a runtime whose Rust library writes no log.

    The library would write it, with colour codes, to stdout, where the answers of `crawlctl --json` are. The errors
    that the SDK raises say the same.
    """
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter="off")))
