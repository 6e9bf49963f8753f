"""A Prometheus that watches a stack with the project's own rules, whose times are shortened.

An hour in the rules lasts seconds here, so that an outage of seconds is a long one.
"""

import asyncio
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import yaml

from crawler_lifecycle.http.tokens import Scope, Tokens
from crawler_lifecycle.settings import stack_file
from crawler_lifecycle.stack.plan import free_ports
from tests.chaos.ground import Ground
from tests.kit.data.databases import missing
from tests.kit.waiting import eventually_async

RULES = Path(__file__).parents[2] / "deploy" / "monitoring" / "rules.yaml"
FASTER = 20.0
MUCH_FASTER = {"CrawlerExportsFailed": 180.0, "CrawlerNoticesFailing": 60.0}  # with long limits
SECONDS_IN = {"s": 1.0, "m": 60.0, "h": 3600.0}
DURATION = re.compile(r"(?<=\[)(\d+)([smh])(?=\])")  # of a range
LIMIT = re.compile(r"(_seconds\)? > )(\d+)\b(?! \*)")  # of an age
DISK = ("crawler_disk_free_bytes < 1e9", "crawler_disk_free_bytes < 1e8")  # the stack's disk is smaller than 1e9
SHORTEST_RANGE = 10.0  # seconds: a rate needs several samples
SETTINGS = {  # two pulses in three seconds
    "CRAWLER_HEALTH__STUCK_SECONDS": "6",
    "CRAWLER_HEALTH__READY_SECONDS": "6",
    "CRAWLER_AUDIT__EVERY_SECONDS": "600",  # an outage makes audits incomplete
    "CRAWLER_SCHEDULER__METRICS_TOKEN": "for-the-metrics-of-the-scheduler",
}
PATIENCE = 90.0
Alert = tuple[str, str]  # name, and the part for an alert about a part


def watched_settings() -> dict[str, str]:
    """Return settings with three free ports in a row, for worker, dispatcher and watcher."""
    while True:
        first = free_ports(1)[0]
        with suppress(OSError):
            for port in (first + 1, first + 2):
                socket.create_server(("127.0.0.1", port)).close()
            return SETTINGS | {"CRAWLER_HEALTH__PORT": str(first)}


def shortened(rule: dict[str, Any]) -> dict[str, Any]:
    faster = MUCH_FASTER.get(rule["alert"], FASTER)

    def in_range(match: re.Match[str]) -> str:
        return f"{max(SHORTEST_RANGE, _seconds(match[0]) / faster):.0f}s"

    expression = DURATION.sub(in_range, rule["expr"].replace(*DISK))
    if "histogram_quantile" not in expression:
        expression = LIMIT.sub(lambda match: f"{match[1]}{int(match[2]) / faster:g}", expression)
    return rule | {"expr": expression, "for": f"{_seconds(rule.get('for', '0s')) / faster * 1000:.0f}ms"}


def _seconds(duration: str) -> float:
    return float(duration[:-1]) * SECONDS_IN[duration[-1]]


class Prometheus:
    def __init__(self, url: str) -> None:
        self._url = url

    async def firing(self) -> set[Alert]:
        async with httpx.AsyncClient(trust_env=False) as client:
            alerts = (await client.get(f"{self._url}/api/v1/alerts")).json()["data"]["alerts"]
        return {_named(alert["labels"]) for alert in alerts if alert["state"] == "firing"}

    async def until_firing(self, *wanted: Alert) -> set[Alert]:
        """Wait for these alerts, and return all that fire then."""
        seen: set[Alert] = set()

        async def fire() -> bool:
            seen.clear()
            seen.update(await self.firing())
            return seen >= set(wanted)

        await eventually_async(fire, f"the alerts {wanted}", PATIENCE, pause=0.5, seen=lambda: seen)
        return seen

    async def until_calm(self) -> None:
        """Wait until no alert fires."""
        seen: set[Alert] = set()

        async def is_calm() -> bool:
            seen.clear()
            seen.update(await self.firing())
            return not seen

        await eventually_async(is_calm, "no alert to fire", PATIENCE, pause=0.5, seen=lambda: seen)

    async def fired_within(self, seconds: float) -> Collection[Alert]:
        """Return the alerts that fire in this time from now."""
        seen: set[Alert] = set()
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline:
            seen |= await self.firing()
            await asyncio.sleep(0.5)
        return seen

    async def until_scraped(self) -> None:
        """Wait until every target has answered."""
        problems = ["no answer"]

        async def are_up() -> bool:
            with suppress(httpx.HTTPError):  # it answers 503 at first
                async with httpx.AsyncClient(trust_env=False) as client:
                    answer = (await client.get(f"{self._url}/api/v1/targets")).raise_for_status()
                targets = answer.json()["data"]["activeTargets"]
                down = [target for target in targets if target["health"] != "up"]
                problems[:] = [f"{target['scrapeUrl']}: {target['lastError']}" for target in down]
                return bool(targets) and not problems
            return False

        await eventually_async(are_up, "every process to be scraped", PATIENCE, pause=0.5, seen=lambda: problems)


def _named(labels: dict[str, str]) -> Alert:
    return labels["alertname"], labels.get("of") or labels.get("job", "").removeprefix("crawler-lifecycle/")


@asynccontextmanager
async def prometheus(ground: Ground) -> AsyncIterator[Prometheus]:
    """Watch the ground's stack during the block. Its settings are those of `watched_settings`, and its ports stay."""
    program = shutil.which("prometheus")
    if program is None:
        missing("prometheus is missing (Debian: apt-get install prometheus)")
    folder, (port,) = ground.folder / "prometheus", free_ports(1)
    folder.mkdir()
    rules = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    for group in rules:
        group["rules"] = [shortened(rule) for rule in group["rules"]]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": rules}))
    settings = {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"}
    config = {"global": settings, "rule_files": ["rules.yaml"], "scrape_configs": _targets(ground)}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    options = ("--config.file=prometheus.yaml", f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.path=data")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([str(program), *options], cwd=folder, stdout=log, stderr=log, start_new_session=True)
    server = Prometheus(f"http://127.0.0.1:{port}")
    try:
        await server.until_scraped()
        yield server
    finally:
        process.kill()
        process.wait()


def _targets(ground: Ground) -> list[dict[str, Any]]:
    stack = stack_file.read(ground.state)
    assert stack
    said, first = stack.environment, int(ground.said["CRAWLER_HEALTH__PORT"])
    token = Tokens(Path(said["CRAWLER_API__TOKENS"])).make("prometheus", [Scope.READ])
    return [
        *(
            _target(name, f"127.0.0.1:{first + place}")
            for place, name in enumerate(("worker", "dispatcher", "watcher"))
        ),
        _target(
            "scheduler",
            said["CRAWLER_SCHEDULER__URL"].removeprefix("http://"),
            said["CRAWLER_SCHEDULER__METRICS_TOKEN"],
        ),
        _target("api", said["CRAWLER_API__URL"].removeprefix("http://"), token),
    ]


def _target(name: str, address: str, token: str | None = None) -> dict[str, Any]:
    labels = {"namespace": "crawls", "job": f"crawler-lifecycle/{name}"}
    target: dict[str, Any] = {"job_name": name, "static_configs": [{"targets": [address], "labels": labels}]}
    return target | ({"authorization": {"credentials": token}} if token else {})
