"""How is the API server reached, and as whom? The only importer of the `kubernetes` package.

Its package gives the address, the certificates and the token, wherever they come from. A `Connection` is made anew to
read all of them again.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import urllib3
import yaml
from kubernetes.client import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.config.incluster_config import SERVICE_TOKEN_FILENAME

from crawler_lifecycle.errors import NotReady

NOT_REACHED = (urllib3.exceptions.HTTPError, OSError)
NOT_READABLE = (ConfigException, yaml.YAMLError, OSError, ValueError)
CANNOT_BE_USED = (ApiException, ConfigException)
LOOPBACK = ("127.0.0.1", "localhost", "::1")  # never through a proxy
USER_AGENT = "crawler-lifecycle"


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API server is, and how long it is waited for."""

    namespace: str
    kubeconfig: Path | None = None
    context: str | None = None
    connections: int = 40  # kept open, and as many as there are threads that ask
    connect_seconds: float = 3
    read_seconds: float = 10  # of silence


class Connection:
    """Requests with who we are; may be used by many threads at once."""

    def __init__(self, access: Access) -> None:
        self._configuration = _configuration(access)
        self._rest = RESTClientObject(self._configuration)
        self.host: str = self._configuration.host

    def request(
        self, method: str, path: str, headers: Mapping[str, str], body: object, timeout: tuple[float, float]
    ) -> urllib3.HTTPResponse:
        """The beginning of the answer. Nothing is ever sent twice from here."""
        sent = {"User-Agent": USER_AGENT, **headers, **self._authorization()}
        answer = self._rest.request(method, self.host + path, headers=sent, body=body, _request_timeout=timeout)
        return cast("urllib3.HTTPResponse", answer.response)

    def post(
        self, path: str, headers: Mapping[str, str], body: object, timeout: tuple[float, float]
    ) -> urllib3.HTTPResponse:
        """The same, but nothing is asked for once connecting has taken longer in all: its time-out is for each address
        of the host, and each step of TLS."""
        until, content = time.monotonic() + timeout[0], json.dumps(body).encode()

        def in_time() -> Iterator[bytes]:
            if time.monotonic() > until:
                raise urllib3.exceptions.TimeoutError("connecting took too long for anything to be sent")
            yield content

        own = {"User-Agent": USER_AGENT, "Content-Length": str(len(content))}
        answer = self._rest.pool_manager.request(
            "POST",
            self.host + path,
            body=in_time(),
            headers={**own, **headers, **self._authorization()},
            timeout=urllib3.Timeout(connect=timeout[0], read=timeout[1]),
            preload_content=False,
        )
        return cast("urllib3.HTTPResponse", answer)

    def close(self) -> None:
        self._rest.close()

    def _authorization(self) -> dict[str, str]:
        """A token in a pod is read again every minute, by the package's hook."""
        setting: Any = self._configuration.auth_settings().get("BearerToken")
        value = setting and setting["value"]
        return {"Authorization": value.strip()} if value else {}


def _configuration(access: Access) -> Configuration:
    configuration = Configuration()
    configuration.connection_pool_maxsize = access.connections
    configuration.retries = False  # urllib3 would send a DELETE up to four times, and wait without telling
    configuration.keep_alive = True
    try:
        if access.kubeconfig is None and access.context is None and Path(SERVICE_TOKEN_FILENAME).exists():
            load_incluster_config(configuration)
        else:
            load_kube_config(
                config_file=str(access.kubeconfig) if access.kubeconfig else None,
                context=access.context,
                client_configuration=configuration,
                persist_config=False,
            )
    except NOT_READABLE as error:
        raise NotReady(f"CRAWLER_KUBERNETES__KUBECONFIG: no access to a cluster: {_first_line(error)}") from error
    configuration.no_proxy = ",".join(filter(None, (configuration.no_proxy, *LOOPBACK)))
    return configuration


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
