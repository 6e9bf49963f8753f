"""A gate before a Temporal server, with TLS, that authorises as a server with an authorizer does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc

from tests.kubernetes.certificates import Certificates

RESERVED = ("grpc-", "user-agent")  # metadata of a connection
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.http2.max_ping_strikes", 0)]
OF_OPERATORS = ("operatorservice", "/UpdateNamespace", "/RegisterNamespace")
REFUSED = "Request unauthorized."


@dataclass
class Gate:
    """Passes calls on as bytes, except without the key and those of operators. It has the methods of both kinds."""

    key: str
    upstream: grpc.aio.Channel
    passed: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(partial(self._answer, details.method))

    async def _answer(self, method: str, request: bytes, context: Any) -> Any:
        metadata = [pair for pair in context.invocation_metadata() if not pair[0].startswith(RESERVED)]
        if ("authorization", f"Bearer {self.key}") not in metadata or any(part in method for part in OF_OPERATORS):
            self.refused.add(method)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, REFUSED)
        self.passed.add(method)
        try:
            return await self.upstream.unary_unary(method)(request, metadata=metadata, timeout=context.time_remaining())
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details(), tuple(error.trailing_metadata()))


@asynccontextmanager
async def guarded(upstream: str, key: str, certificates: Certificates) -> AsyncIterator[tuple[Gate, str]]:
    """Serve a gate to this server during the block. Yield it with its address."""
    pair = certificates.server_key.read_bytes(), certificates.server.read_bytes()
    async with grpc.aio.insecure_channel(upstream, options=UNLIMITED) as channel:
        gate, server = Gate(key, channel), grpc.aio.server(options=UNLIMITED)
        server.add_generic_rpc_handlers([gate])
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
        await server.start()
        try:
            yield gate, f"127.0.0.1:{port}"
        finally:
            await server.stop(None)
