"""The compose file fits its schema, starts what there is, with settings that are ours, and probes the right ports."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import jsonschema
import pytest
import yaml
from pymysql._auth import sha2_rsa_encrypt

from crawler_lifecycle.database.database import parse_url
from crawler_lifecycle.delivery.aws.archives import S3Archiver
from crawler_lifecycle.settings import configuration
from crawler_lifecycle.stack.plan import TEMPORAL_EAGER, TEMPORAL_LIMITS, free_ports
from crawler_lifecycle.temporal.connection import search_attribute_types
from tests.deploy.dockerfile import CHECKOUT
from tests.kit.outside.stores import ENDED_AT, announced

COMPOSE = CHECKOUT / "deploy" / "compose.yaml"
DEPLOYING, READING = "secret-of-the-test", "another-one"  # tokens of the scheduler service
SECRETS = {
    "DATABASE_PASSWORD": "letters",
    "OBJECTS_SECRET": "digits",
    "SCHEDULER_TOKEN": DEPLOYING,
    "SCHEDULER_READ_TOKEN": READING,
    "OPERATOR_TOKEN": "for crawlctl",
}
PROGRAMS = Path(sys.executable).parent
OURS = {"upgrade", "scheduler", "dispatcher", "watcher", "worker", "api", "triggers"}


class Ready(BaseHTTPRequestHandler):
    """Answers as a process that is ready."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()


def document() -> dict[str, Any]:
    """With the caller's variables in their places."""
    text = COMPOSE.read_text()
    found: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{(\w+):\?[^}]*\}", lambda match: SECRETS[match[1]], text))
    return found


@pytest.fixture
def services() -> dict[str, Any]:
    found: dict[str, Any] = document()["services"]
    return found


def schema() -> Any:
    return json.loads(files("check_jsonschema").joinpath("builtin_schemas", "vendor", "compose-spec.json").read_text())


def test_it_fits_the_schema() -> None:
    jsonschema.Draft202012Validator(schema()).validate(document())


def test_what_does_not_fit_is_found() -> None:
    wrong = document()
    wrong["services"]["worker"]["health-check"] = {}
    assert list(jsonschema.Draft202012Validator(schema()).iter_errors(wrong))


def test_every_image_has_a_version(services: dict[str, Any]) -> None:
    for service in services.values():
        _, _, tag = service["image"].partition(":")
        assert tag
        assert tag != "latest"


def test_what_is_needed_is_there(services: dict[str, Any]) -> None:
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        for needed, how in service.get("depends_on", {}).items():
            assert how["condition"] != "service_healthy" or "healthcheck" in services[needed]
        volumes = {volume.split(":")[0] for volume in service.get("volumes", []) if not volume.startswith(".")}
        assert volumes <= set(document()["volumes"])
        for volume in service.get("volumes", []):
            assert not volume.startswith(".") or (COMPOSE.parent / volume.split(":")[0]).exists()


def test_nothing_is_published_but_on_loopback(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_ours_see_each_other_and_write_nowhere_else(services: dict[str, Any]) -> None:
    for name in OURS:
        ours = services[name]
        assert (ours["pid"], ours["network_mode"]) == ("service:house", "service:house"), name
        assert ours["read_only"], name
        assert ours["cap_drop"] == ["ALL"], name
        assert ours["tmpfs"] == ["/tmp"], name


def test_commands_and_settings_are_ours(services: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    modules = [services[name]["command"][2] for name in OURS - {"upgrade"}]
    assert all(importlib.util.find_spec(module) for module in modules)
    for name in OURS:
        with monkeypatch.context() as patched:
            for variable, value in services[name]["environment"].items():
                patched.setenv(variable, value)
            loaded = configuration.load()
        known = loaded.model_dump()
        for variable in services[name]["environment"]:
            if variable.startswith("CRAWLER_"):
                group, _, field = variable.removeprefix("CRAWLER_").lower().partition("__")
                assert group in known
                assert not field or field in known[group]
        if name in (
            "scheduler",
            "triggers",
        ):  # crawls run in the first one's container, and the second needs no database
            assert loaded.database.url is None
            continue
        address = parse_url(loaded.database_url)
        mysql = services["database"]["environment"]
        assert (address.username, address.password, address.database) == (
            mysql["MYSQL_USER"],
            mysql["MYSQL_PASSWORD"],
            mysql["MYSQL_DATABASE"],
        )
        assert address.host == "database"


def test_only_those_that_deploy_have_the_token_for_it(services: dict[str, Any]) -> None:
    tokens = {name: services[name]["environment"].get("CRAWLER_SCHEDULER__TOKEN") for name in OURS}
    deploying = dict.fromkeys(("scheduler", "dispatcher", "worker"), DEPLOYING)
    assert tokens == deploying | dict.fromkeys(("watcher", "upgrade", "triggers")) | {"api": READING}
    assert services["scheduler"]["environment"]["CRAWLER_SCHEDULER__READ_TOKEN"] == READING


def test_crawlctl_in_the_container_of_the_worker_has_the_api_and_its_token(services: dict[str, Any]) -> None:
    """`docker compose exec worker crawlctl list`; both are in one network."""
    worker, api = (services[name]["environment"] for name in ("worker", "api"))
    assert worker["CRAWLER_REMOTE__URL"] == api["CRAWLER_API__URL"].replace("0.0.0.0", "127.0.0.1")
    holders = {name for name in OURS if SECRETS["OPERATOR_TOKEN"] in services[name]["environment"].values()}
    assert (holders, worker["CRAWLER_REMOTE__TOKEN"]) == ({"worker", "api"}, api["CRAWLER_API__OPERATOR_TOKEN"])


def test_one_probe_asks_the_ports_that_the_processes_have(services: dict[str, Any]) -> None:
    ports = {name: services[name]["environment"].get("CRAWLER_HEALTH__PORT") for name in OURS - {"upgrade"}}
    ports |= {"scheduler": "8310", "api": "3210"}
    assert len(set(ports.values())) == len(ports)  # they share one network
    del ports["triggers"]  # an option
    *_, program = services["house"]["healthcheck"]["test"]
    assert set(re.findall(r"\d{4}", program)) == set(ports.values())


def test_no_probe_has_a_secret_that_a_crawl_reads(services: dict[str, Any]) -> None:
    """The engine starts a probe with its container's environment, as a new program that hides nothing."""
    with_crawls = {name for name, service in services.items() if service.get("pid")} | {"house"}
    assert with_crawls == OURS | {"house"}
    assert {name for name in with_crawls if "healthcheck" in services[name]} == {"house"}
    assert not {"environment", "env_file", "secrets", "volumes"} & set(services["house"])


def test_the_probe_fails_while_a_process_is_not_ready(services: dict[str, Any]) -> None:
    """Its very program, on other ports: one process is ready, the next one is away."""
    *_, program = services["house"]["healthcheck"]["test"]
    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        (away,) = free_ports(1)
        probes = {}
        for ports in ((server.server_port,), (server.server_port, away)):
            changed = re.sub(r"\(8310.*\)", repr(ports), program)
            probes[ports] = subprocess.run([sys.executable, "-c", changed], capture_output=True, text=True)
        server.shutdown()
    ready, waiting = probes.values()
    assert (ready.returncode, ready.stdout) == (0, f"{server.server_port}\n"), ready.stderr
    assert (waiting.returncode, waiting.stdout) == (1, f"{server.server_port}\n{away}\n")


def test_temporal_knows_our_search_attributes(services: dict[str, Any]) -> None:
    prefix = "--search-attribute="
    told = [word.removeprefix(prefix) for word in services["temporal"]["command"] if word.startswith(prefix)]
    assert dict(each.split("=") for each in told) == search_attribute_types()


def test_temporal_has_the_settings_of_the_embedded_stack(services: dict[str, Any]) -> None:
    prefix = "--dynamic-config-value="
    values = [word.removeprefix(prefix) for word in services["temporal"]["command"] if word.startswith(prefix)]
    assert values == [*TEMPORAL_LIMITS, TEMPORAL_EAGER]


def test_the_service_archives_to_the_s3_server_that_is_there(
    services: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its very command, with the program of that version, and the very settings of the worker."""
    server, worker = services["objects"], services["worker"]
    version = subprocess.run([PROGRAMS / "rclone", "version"], capture_output=True, text=True, check=True).stdout
    assert version.startswith(f"rclone v{server['image'].partition(':')[2]}\n")
    (port,) = free_ports(1)
    (command,) = server["command"]
    here = (
        command.replace("$$", "$").replace("/data", str(tmp_path / "data")).replace("0.0.0.0:8333", f"127.0.0.1:{port}")
    )
    for variable, value in worker["environment"].items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("CRAWLER_EXPORT__S3_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    run_uid = str(uuid4())
    (tmp_path / "files" / run_uid).mkdir(parents=True)
    (tmp_path / "files" / run_uid / "items").write_text("one")
    chosen = configuration.load().export
    environment = {
        **server["environment"],
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    command_line = [*server["entrypoint"], here]
    with subprocess.Popen(command_line, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert announced(process) == chosen.s3_endpoint_url
            archiver = S3Archiver(tmp_path / "files", chosen.bucket or "", chosen)
            archiver.check_archives()
            assert archiver.archive(run_uid, 1, ENDED_AT, lambda files, bytes_done: None)
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert [path.name for path in (tmp_path / "data" / "archives").iterdir()] == [f"{run_uid}.zip"]


def test_the_driver_can_send_mysql_8_its_password() -> None:
    """Its way of asking for one (caching_sha2_password) needs a package that the driver alone does not bring."""
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = generate_private_key(65537, 2048)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert len(sha2_rsa_encrypt(b"secret", b"x" * 20, public)) == 256
