"""The alerts fire in their situations and not in the calm, and name only metrics, ports and Secrets of the service."""

import json
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import KUBERNETES, read
from tests.kit.data.databases import missing

ROOT = KUBERNETES.parents[1]
MONITORING = ROOT / "deploy" / "monitoring"
RULES = yaml.safe_load((MONITORING / "rules.yaml").read_text())["spec"]
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
NAMES = [alert["alert"] for alert in ALERTS]
DECLARED = set(
    re.findall(r"^\| `(\w+)`", runpy.run_path(str(ROOT / "docs" / "generate_metrics.py"))["page"](), re.MULTILINE)
)
METRIC = re.compile(r"\b(?:crawler|scheduler|api|http|process|flow)_\w+")
HOURS = "3h"

W, D, V, S, A = (
    f'namespace="a",job="crawler-lifecycle/{name}"' for name in ("worker", "dispatcher", "watcher", "scheduler", "api")
)
RISES, STAYS, STARTS = "0+60x180", "0x180", "0x150 0+60x30"  # samples a minute; STARTS: half an hour before the end
Series = dict[str, str]


def histogram(metric: str, labels: str, *, fast: str = RISES, slow: str = RISES) -> Series:
    """Return buckets: up to 0.1 s, 1,800 s, and all."""
    buckets = {"0.1": fast, "1800": slow, "+Inf": slow}
    return {f'{metric}_bucket{{{labels},le="{le}"}}': values for le, values in buckets.items()}


def latency(*, fast: str = RISES) -> Series:
    """Return the buckets of Temporal's SDK: up to 50 milliseconds, ten seconds, and all."""
    labels = 'namespace="a",job="crawler-lifecycle/worker-temporal",operation="StartWorkflowExecution"'
    buckets = {"50": fast, "10000": RISES, "+Inf": RISES}
    return {f'temporal_request_latency_bucket{{{labels},le="{le}"}}': values for le, values in buckets.items()}


CALM: Series = {
    **{f'up{{namespace="a",job="crawler-lifecycle/{name}"}}': "1x180" for name in ("dispatcher", "scheduler", "api")},
    f'up{{{W},pod="1"}}': "1x180",
    f'up{{{W},pod="2"}}': "0x180",  # one of two
    'up{namespace="a",job="crawler-lifecycle/watcher"}': "1x180",
    f'process_pulse_age_seconds{{{W},of="database"}}': "15x180",
    f'process_pulse_age_seconds{{{D},of="database"}}': "15x180",
    **histogram("crawler_database_statement_seconds", f'{W},kind="UPDATE"'),
    f'crawler_database_contended_total{{{W},outcome="repeated"}}': RISES,
    f'crawler_database_contended_total{{{W},outcome="given_up"}}': STAYS,
    f"crawler_database_disconnects_total{{{W}}}": "0x100 20x80",  # a restart of the server
    f"crawler_database_connections{{{W}}}": "5x180",
    f"crawler_database_connection_limit{{{W}}}": "10x180",
    **latency(),
    f'crawler_kubernetes_answers_total{{{W},method="GET",status="200"}}': RISES,
    f'crawler_kubernetes_answers_total{{{W},method="GET",status="503"}}': "0+1x180",
    **histogram("crawler_kubernetes_request_seconds", f'{W},method="GET"'),
    f"crawler_kubernetes_watch_failures_total{{{D}}}": STAYS,
    f"crawler_look_delay_seconds{{{D}}}": "20x180",
    **histogram("crawler_run_start_seconds", W),
    **histogram("crawler_run_stop_seconds", W),
    f"crawler_requests_without_run{{{V}}}": STAYS,
    f"crawler_requests_in_peak{{{V}}}": STAYS,
    f"crawler_schedule_delay_seconds{{{V}}}": STAYS,
    f"crawler_oldest_in_line_seconds{{{D}}}": "600x180",
    f'crawler_saturated_looks{{{W},cause="quota",cluster="main"}}': "0x90 3x90",  # for a moment
    f'crawler_runs_obstructed{{{D},cause="image_pull"}}': STAYS,
    f'crawler_runs_ended_total{{{W},status="COMPLETED",reason="all_succeeded"}}': RISES,
    f'crawler_runs_ended_total{{{W},status="FAILED",reason="stopped"}}': "0+600x180",
    f"crawler_crawlers_failing{{{D}}}": STAYS,
    f"crawler_exports_pending_seconds{{{D}}}": "30x180",
    f"crawler_exports_failed{{{D}}}": STAYS,
    f'crawler_notices_total{{{W},outcome="sent"}}': RISES,
    f'crawler_notices_total{{{W},outcome="failed"}}': STAYS,
    f"crawler_audit_age_seconds{{{W}}}": "700x180",
    f"crawler_audit_every_seconds{{{W}}}": "600x180",
    f'crawler_audit_open_findings{{{W},kind="job_lost"}}': STAYS,
    f"crawler_workflows_failing{{{W}}}": STAYS,
    f'crawler_disk_free_bytes{{{W},folder="state"}}': "2e9x180",
    f"scheduler_disk_problem{{{S}}}": STAYS,
    f"api_disk_problem{{{A}}}": STAYS,
    f'crawler_cluster_clock_difference_seconds{{{W},cluster="main"}}': "1x180",
    f'http_refused_callers_total{{{A},status="401"}}': "0+1x180",
    f'api_requests_total{{{A},method="GET",route="/v1/runs",status="200"}}': RISES,
    f'api_requests_total{{{A},method="GET",route="/v1/runs",status="503"}}': "0+1x180",
    f"crawler_trigger_message_age_seconds{{{D}}}": "5x180",
    f"crawler_flow_silence_seconds{{{D}}}": "3600x180",
    f"crawler_flows_without_host{{{D}}}": STAYS,
    f'crawler_build_info{{{W},version="1.0.0"}}': "1x180",
}
# each alert with the series that differ from the calm
SITUATIONS: dict[str, Series] = {
    "CrawlerProcessDown": {f'up{{{W},pod="1"}}': "1x150 0x30"},
    "CrawlerPartUnavailable": {f'process_pulse_age_seconds{{{W},of="database"}}': STARTS},
    "CrawlerDatabaseSlow": histogram("crawler_database_statement_seconds", f'{W},kind="UPDATE"', fast=STAYS),
    "CrawlerDatabaseContended": {f'crawler_database_contended_total{{{W},outcome="given_up"}}': "0x175 1x5"},
    "CrawlerDatabaseDisconnected": {f"crawler_database_disconnects_total{{{W}}}": "0+6x180"},
    "CrawlerDatabaseConnectionsUsed": {f"crawler_database_connections{{{W}}}": "10x180"},
    "CrawlerTemporalSlow": latency(fast=STAYS),
    "CrawlerKubernetesFailing": {f'crawler_kubernetes_answers_total{{{W},method="GET",status="503"}}': STARTS},
    "CrawlerKubernetesSlow": histogram("crawler_kubernetes_request_seconds", f'{W},method="GET"', fast=STAYS),
    "CrawlerWatchFailing": {f"crawler_kubernetes_watch_failures_total{{{D}}}": "0+2x180"},
    "CrawlerLooksLate": {f"crawler_look_delay_seconds{{{D}}}": STARTS},
    "CrawlerStartsSlow": histogram("crawler_run_start_seconds", W, fast=STAYS),
    "CrawlerStopsSlow": histogram("crawler_run_stop_seconds", W, fast=STAYS),
    "CrawlerRequestsUnstarted": {f"crawler_requests_without_run{{{V}}}": "3x180"},
    "CrawlerRequestsInPeak": {
        f"crawler_requests_without_run{{{V}}}": "900x180",
        f"crawler_requests_in_peak{{{V}}}": "2000x180",
    },
    "CrawlerScheduleLate": {f"crawler_schedule_delay_seconds{{{V}}}": RISES},
    "CrawlerQueueOld": {f"crawler_oldest_in_line_seconds{{{D}}}": RISES},
    "CrawlerClusterFull": {f'crawler_saturated_looks{{{W},cause="quota",cluster="main"}}': "0+1x180"},
    "CrawlerRunsObstructed": {f'crawler_runs_obstructed{{{D},cause="image_pull"}}': "2x180"},
    "CrawlerRunsFailing": {
        f'crawler_runs_ended_total{{{W},status="FAILED",reason="never_started"}}': RISES,
        f'crawler_runs_ended_total{{{W},status="COMPLETED",reason="all_succeeded"}}': "0+20x180",
        f'crawler_runs_ended_total{{{W},status="FAILED",reason="stopped"}}': "0+1x180",
    },
    "CrawlerCrawlersFailing": {f"crawler_crawlers_failing{{{D}}}": "1x180"},
    "CrawlerExportsLate": {f"crawler_exports_pending_seconds{{{D}}}": RISES},
    "CrawlerExportsFailed": {f"crawler_exports_failed{{{D}}}": "1x180"},
    "CrawlerNoticesFailing": {f'crawler_notices_total{{{W},outcome="failed"}}': "0+200x180"},
    "CrawlerAuditLate": {f"crawler_audit_age_seconds{{{W}}}": RISES},
    "CrawlerAuditFindings": {f'crawler_audit_open_findings{{{W},kind="job_lost"}}': "2x180"},
    "CrawlerWorkflowsFailing": {f"crawler_workflows_failing{{{W}}}": "1x180"},
    "CrawlerDiskLow": {f"api_disk_problem{{{A}}}": "1x180"},
    "CrawlerClockDifferent": {f'crawler_cluster_clock_difference_seconds{{{W},cluster="main"}}': "-90x180"},
    "CrawlerRequestsRefused": {f'http_refused_callers_total{{{A},status="401"}}': RISES},
    "CrawlerApiFailing": {f'api_requests_total{{{A},method="GET",route="/v1/runs",status="503"}}': STARTS},
    "CrawlerTriggersLate": {f"crawler_trigger_message_age_seconds{{{D}}}": RISES},
    "CrawlerFlowSilent": {f"crawler_flow_silence_seconds{{{D}}}": "90000x180"},
    "CrawlerFlowsWithoutHost": {f"crawler_flows_without_host{{{D}}}": "2x180"},
    "CrawlerVersionsMixed": {f'crawler_build_info{{{D},version="1.1.0"}}': "1x180"},
}


def _case(name: str, series: Series, firing: list[str]) -> dict[str, Any]:
    """Return a case in which exactly these alerts fire at the end."""
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in firing]
    expression = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in (CALM | series).items()],
        "promql_expr_test": [{"expr": expression, "eval_time": HOURS, "exp_samples": samples}],
    }


def _tested(folder: Path, cases: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    (folder / "rules.yaml").write_text(yaml.safe_dump(RULES))
    tests = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": cases}
    (folder / "cases.yaml").write_text(yaml.safe_dump(tests))
    try:
        return subprocess.run(
            ["promtool", "test", "rules", "cases.yaml"], cwd=folder, capture_output=True, text=True, timeout=280
        )
    except FileNotFoundError:
        missing("promtool is missing (Debian: apt-get install prometheus; macOS: brew install prometheus)")
        raise


@pytest.mark.timeout(300)  # promtool computes for half a minute on a quiet machine
@pytest.mark.long
def test_each_alert_fires_alone_in_its_situation_and_none_in_the_calm(tmp_path: Path) -> None:
    assert sorted(SITUATIONS) == sorted(NAMES)
    cases = [_case("calm", {}, []), *(_case(name, series, [name]) for name, series in SITUATIONS.items())]
    done = _tested(tmp_path, cases)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = _tested(tmp_path, [_case("calm", {}, [NAMES[0]])])
    assert NAMES[0] in wrong.stderr + wrong.stdout, "promtool compares nothing"


def test_rules_and_dashboard_name_only_declared_metrics() -> None:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    expressions = [alert["expr"] for alert in ALERTS]
    expressions += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = {name.removesuffix("_bucket") for text in expressions for name in METRIC.findall(text)}
    assert named <= DECLARED
    assert len(named) > 20


def test_each_alert_has_a_section_and_each_section_an_alert() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    assert re.findall(r"^### (Crawler\w+)$", page, re.MULTILINE) == NAMES
    assert [alert["annotations"]["runbook"] for alert in ALERTS] == [
        f"docs/operations.md#{name.lower()}" for name in NAMES
    ]


@pytest.mark.parametrize(
    "monitor", read(MONITORING / "scraping.yaml"), ids=lambda monitor: str(monitor["metadata"]["name"])
)
def test_monitors_find_pods_with_their_ports(monitor: dict[str, Any]) -> None:
    wanted = monitor["spec"]["selector"]["matchLabels"]
    wanted.pop("app.kubernetes.io/part-of")  # kustomize adds it to the base
    files = map(read, KUBERNETES.rglob("*.yaml"))
    deployments = [document for documents in files for document in documents if document["kind"] == "Deployment"]
    templates = [pod["spec"]["template"] for pod in deployments if "selector" in pod["spec"]]
    pods = [pod for pod in templates if wanted.items() <= pod["metadata"]["labels"].items()]
    ports = {port["name"] for pod in pods for box in pod["spec"]["containers"] for port in box.get("ports", ())}
    for endpoint in monitor["spec"]["podMetricsEndpoints"]:
        assert endpoint["port"] in ports
