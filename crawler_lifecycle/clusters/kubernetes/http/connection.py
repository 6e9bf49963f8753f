"""Connection to the API server: address, certificates and token. The only importer of the `kubernetes` package.

The package reads address, certificates and token from a kubeconfig or from a pod's service account. A new
`ApiConnection` reads all three again.
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

NOT_REACHED = (urllib3.exceptions.HTTPError, OSError)  # the answer is missing or cut
ACCESS_FAILED = (ApiException, ConfigException)  # the certificates do not fit, or no token can be read
# the kubeconfig, or the files of the pod's service account, cannot be read
NOT_READABLE = (ConfigException, yaml.YAMLError, OSError, ValueError)
LOOPBACK = ("127.0.0.1", "localhost", "::1")  # reached without a proxy
USER_AGENT = "crawler-lifecycle"


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """States where the API server is and how long a request may wait."""

    namespace: str
    kubeconfig: Path | None = None
    context: str | None = None
    connections: int = 40  # connections kept open, one per sending thread
    connect_seconds: float = 3  # a connection that takes longer fails
    read_seconds: float = 10  # an answer fails after this time without any data


class ApiConnection:
    """A connection sends requests with our credentials; many threads may use it at once."""

    def __init__(self, access: ApiAccess) -> None:
        self._configuration = _configuration(access)
        self._rest = RESTClientObject(self._configuration)
        self.host: str = self._configuration.host

    def request(
        self, method: str, path: str, headers: Mapping[str, str], body: object, timeout: tuple[float, float]
    ) -> urllib3.HTTPResponse:
        """Return the beginning of the answer. No request is ever sent twice here."""
        all_headers = {"User-Agent": USER_AGENT, **headers, **self._authorization()}
        answer = self._rest.request(method, self.host + path, headers=all_headers, body=body, _request_timeout=timeout)
        return cast("urllib3.HTTPResponse", answer.response)

    def post(
        self, path: str, headers: Mapping[str, str], body: object, timeout: tuple[float, float]
    ) -> urllib3.HTTPResponse:
        """Send a POST whose body leaves in time or never, and return the beginning of the answer.

        A late body could create an object after the caller stopped waiting. The library's own time-out does not prevent
        a late body: the time-out begins anew for every address of the host, and for every step of TLS.
        """
        until, content = time.monotonic() + timeout[0], json.dumps(body).encode()

        def body_in_time() -> Iterator[bytes]:
            if time.monotonic() > until:
                raise urllib3.exceptions.TimeoutError("connecting took too long for anything to be sent")
            yield content

        default_headers = {"User-Agent": USER_AGENT, "Content-Length": str(len(content))}
        answer = self._rest.pool_manager.request(
            "POST",
            self.host + path,
            body=body_in_time(),
            headers={**default_headers, **headers, **self._authorization()},
            timeout=urllib3.Timeout(connect=timeout[0], read=timeout[1]),
            preload_content=False,
        )
        return cast("urllib3.HTTPResponse", answer)

    def close(self) -> None:
        self._rest.close()

    def _authorization(self) -> dict[str, str]:
        """Return the token as a header. In a pod the package's hook reads the token again every minute."""
        setting: Any = self._configuration.auth_settings().get("BearerToken")
        value = setting and setting["value"]
        return {"Authorization": value.strip()} if value else {}


def _configuration(access: ApiAccess) -> Configuration:
    """Read the pod's own service account if there is one and neither kubeconfig nor context is set, else a kubeconfig.

    Raise NotReady if address, certificates or token cannot be read.
    """
    configuration = Configuration()
    configuration.connection_pool_maxsize = access.connections
    configuration.retries = False  # with retries urllib3 sends a DELETE up to four times, and waits silently
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
