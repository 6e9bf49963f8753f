import socket

import pytest

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.stack.plan import Ports

pytestmark = pytest.mark.regression("A port that is in use was told with options that `make up` does not take")


def test_the_command_that_takes_the_option_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NotReady) as refused:
            Ports(temporal=port).refuse_taken()
    assert f"port {port} (Temporal)" in refused.value.message
    assert "`crawlctl up --temporal-port PORT`" in refused.value.message
    assert "`crawlctl up --free-ports`" in refused.value.message
