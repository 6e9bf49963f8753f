"""A real Temporal server behind TLS that asks for a certificate, by the variables of the component temporal-tls."""

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.temporal.engine import Engine
from tests.deploy.manifests import KUBERNETES, KUSTOMIZATION
from tests.kubernetes.certificates import Certificates

COMPONENT = KUBERNETES / "components" / "temporal-tls" / KUSTOMIZATION
FOLDER = "/temporal-tls"


@pytest_asyncio.fixture
async def variables(real_time: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """Return the component's variables, with a folder of certificates in place of that of the Secret."""
    certificates = Certificates(tmp_path)
    certificates.make()
    certificates.server.rename(tmp_path / "tls.crt")
    certificates.server_key.rename(tmp_path / "tls.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    context.load_verify_locations(certificates.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    host, port = real_time.client.service_client.config.target_host.split(":")

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError):
            upstream = await asyncio.open_connection(host, int(port))
            await asyncio.gather(_copy(reader, upstream[1]), _copy(upstream[0], writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    (patch,) = yaml.safe_load(COMPONENT.read_text())["patches"]
    values = [change["value"] for change in yaml.safe_load(patch["patch"]) if change["path"].endswith("/env/-")]
    yield {
        **{value["name"]: value["value"].replace(FOLDER, str(tmp_path)) for value in values},
        "TEMPORAL_ADDRESS": f"127.0.0.1:{server.sockets[0].getsockname()[1]}",
        "TEMPORAL_NAMESPACE": real_time.client.namespace,
    }
    server.close()


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    while chunk := await reader.read(1 << 16):
        writer.write(chunk)
        await writer.drain()
    writer.close()


async def test_the_component_connects_over_tls(variables: dict[str, str]) -> None:
    await Engine(variables, "nobody").ping()


@pytest.mark.parametrize("missing", ["CLIENT", "TLS"])
async def test_without_its_certificate_nobody_connects(variables: dict[str, str], missing: str) -> None:
    kept = {name: value for name, value in variables.items() if missing not in name}
    with pytest.raises(LifecycleError, match="Temporal does not answer"):
        await Engine(kept, "nobody").ping()
