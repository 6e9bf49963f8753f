"""Temporal servers for tests: real ones, from the same program that the embedded stack runs."""

import shutil
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest_asyncio
from temporalio.testing import TimeSkippingConfig, WorkflowEnvironment

from crawler_lifecycle.assembly.plugin import LifecyclePlugin
from crawler_lifecycle.temporal.visibility import SEARCH_ATTRIBUTES

FAST = (
    "--dynamic-config-value", "history.timerProcessorMaxPollRPS=1000",
    "--dynamic-config-value", "history.transferProcessorMaxPollRPS=1000",
)  # fmt: skip
SKIPPING = (
    "--dynamic-config-value", "frontend.WorkflowTimeSkippingEnabled=true",
    "--dynamic-config-value", 'history.timerProcessorMaxTimeShift="1ms"',
)  # fmt: skip
SHORT_HISTORIES = ("--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=150")


def temporal_program() -> str:
    beside = Path(sys.executable).with_name("temporal")
    return str(beside) if beside.exists() else shutil.which("temporal") or "temporal"


async def start_skipping(*more: str) -> WorkflowEnvironment:
    return await WorkflowEnvironment.start_time_skipping_v2(
        ts_config=TimeSkippingConfig(max_session_skip_count=10_000),
        dev_server_existing_path=temporal_program(),
        dev_server_extra_args=[*FAST, *SKIPPING, *more],
        dev_server_startup_timeout=timedelta(seconds=30),
        plugins=[LifecyclePlugin()],
        search_attributes=SEARCH_ATTRIBUTES,
    )


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def skipping() -> AsyncIterator[WorkflowEnvironment]:
    """A server in which a workflow's timers take no time. It ends with its module: idle servers compute, too."""
    async with await start_skipping() as environment:
        yield environment


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def short_histories() -> AsyncIterator[WorkflowEnvironment]:
    """The same, and it asks for continue-as-new after a few looks."""
    async with await start_skipping(*SHORT_HISTORIES) as environment:
        yield environment


async def start_real_time(*more: str) -> WorkflowEnvironment:
    return await WorkflowEnvironment.start_local(
        dev_server_existing_path=temporal_program(),
        dev_server_extra_args=[*FAST, *more],
        dev_server_startup_timeout=timedelta(seconds=30),
        plugins=[LifecyclePlugin()],
        search_attributes=SEARCH_ATTRIBUTES,
    )


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def real_time() -> AsyncIterator[WorkflowEnvironment]:
    async with await start_real_time() as environment:
        yield environment
