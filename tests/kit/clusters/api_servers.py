"""A small API server over real HTTP, to be hurt on demand. It knows Jobs, pods and events as objects, and nothing of
what controllers, schedulers and nodes do: that is shown on a real control plane, in tests/kubernetes."""

import gzip
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from crawler_lifecycle.clusters.kubernetes.http.connection import ApiAccess

NAMESPACE = "crawls"
LONGEST_UNPACKED = 128 * 1024  # bytes, as by the real one
OBJECT = re.compile(r"/(?:api/v1|apis/batch/v1)/namespaces/crawls/(jobs|pods|events)(?:/([^/]+))?(/log)?")
Json = dict[str, Any]


class Answered(Exception):
    """What the API server says when it says no."""

    def __init__(self, status: int, reason: str = "", message: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}
        self.body = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Json
    connection: int


@dataclass
class Fault:
    """Once, for a request of this method whose path holds this: an answer, or the connection closed before or after."""

    method: str
    within: str
    answer: Answered | None = None
    drop: str = ""  # "before" or "after" the request was carried out
    hang: threading.Event | None = None
    drips: threading.Event | None = None  # the answer comes byte by byte, until this is set
    spoils: Callable[[bytes], bytes] | None = None  # a packed answer, on its way
    packed_as: str = ""  # and so it is, offered or not
    after: float = 0.0  # seconds, as a server that is busy lets wait


@dataclass
class ApiServer:
    tokens: set[str] = field(default_factory=lambda: {"first"})
    denied: set[tuple[str, str]] = field(default_factory=set)  # verb and resource
    objects: dict[str, dict[str, Json]] = field(default_factory=lambda: {"jobs": {}, "pods": {}, "events": {}})
    logs: dict[str, bytes] = field(default_factory=dict)
    earlier_logs: dict[str, bytes] = field(default_factory=dict)  # which only who follows them has seen
    cut: set[str] = field(default_factory=set)  # pods of whose logs a stream is to end, in order
    followed: dict[str, int] = field(default_factory=dict)  # how far the last stream of a pod's log has come
    seen: list[Seen] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    watching: list[list[bytes] | Answered | Callable[[], list[bytes]] | threading.Event] = field(
        default_factory=list
    )  # what each next stream says, then it ends; with an Event it begins, and says nothing until that is set
    version: int = 100
    lists_at_once: int = 0
    slow_lists: threading.Barrier | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    printed: threading.Condition = field(default_factory=threading.Condition)
    url: str = ""
    git_version: str = "v1.36.4"
    namespace_uid: str = "of the namespace"
    _listing: int = 0

    def asked(self, method: str, within: str = "") -> list[Seen]:
        return [seen for seen in self.seen if seen.method == method and within in seen.path]

    def put(self, kind: str, value: Json) -> Json:
        with self.lock:
            self.version += 1
            metadata = value.setdefault("metadata", {})
            metadata.setdefault("uid", str(uuid4()))
            metadata.setdefault("creationTimestamp", now())
            metadata["resourceVersion"] = str(self.version)
            self.objects[kind][metadata["name"]] = value
            return value

    def end(self, name: str, kind: str = "Complete", **words: str) -> None:
        with self.lock:
            job = self.objects["jobs"][name]
            job["status"] = {"conditions": [{"type": kind, "status": "True", **words}]}
            self.put("jobs", job)

    def admit(self, authorization: str) -> None:
        if authorization not in {f"Bearer {token}" for token in self.tokens}:
            raise Answered(401, "Unauthorized", "Unauthorized")

    def carry_out(self, seen: Seen) -> tuple[int, bytes]:
        if seen.path.endswith("/selfsubjectaccessreviews"):
            asked = seen.body["spec"]["resourceAttributes"]
            allowed = (
                asked["verb"],
                "/".join(filter(None, (asked["resource"], asked["subresource"]))),
            ) not in self.denied
            return 201, _json({"status": {"allowed": allowed}})
        if seen.path == "/version":
            return 200, _json({"gitVersion": self.git_version})
        if seen.path == f"/api/v1/namespaces/{NAMESPACE}":
            metadata = {"name": NAMESPACE, "uid": self.namespace_uid}
            return 200, _json({"kind": "Namespace", "metadata": metadata, "status": {"phase": "Active"}})
        found = OBJECT.fullmatch(seen.path)
        if not found:
            raise Answered(404, "", "404 page not found")
        kind, name, log = found.groups()
        if log:
            if ("get", "pods/log") in self.denied:
                raise Answered(403, "Forbidden", f'pods "{name}" is forbidden: cannot get resource "pods/log"')
            return 200, self._log(name, seen.query)
        if seen.method == "POST":
            return self._create(kind, seen.body)
        if name is None:
            return 200, self._list(kind, seen)
        with self.lock:
            if name not in self.objects[kind]:
                raise Answered(404, "NotFound", f'{kind} "{name}" not found')
            if seen.method == "DELETE":
                self._delete(kind, name, seen.body)
            return 200, _json(self.objects[kind].get(name, {"kind": "Status"}))

    def _create(self, kind: str, value: Json) -> tuple[int, bytes]:
        with self.lock:
            if value["metadata"]["name"] in self.objects[kind]:
                raise Answered(409, "AlreadyExists", f"{kind} already exists")
            return 201, _json(self.put(kind, value))

    def _delete(self, kind: str, name: str, options: Json) -> None:
        value = self.objects[kind][name]
        for field_name, expected in options.get("preconditions", {}).items():
            if value["metadata"][field_name] != expected:
                raise Answered(409, "Conflict", f"the {field_name} in the precondition is not that of the object")
        if options.get("propagationPolicy") == "Foreground":
            value["metadata"]["deletionTimestamp"] = now()
            self.put(kind, value)
        else:
            del self.objects[kind][name]

    def _list(self, kind: str, seen: Seen) -> bytes:
        with self.lock:
            self._listing += 1
            self.lists_at_once = max(self.lists_at_once, self._listing)
        try:
            if self.slow_lists:
                self.slow_lists.wait(20)
            return self._page(kind, seen)
        finally:
            with self.lock:
                self._listing -= 1

    def _page(self, kind: str, seen: Seen) -> bytes:
        with self.lock:
            found = [value for value in self.objects[kind].values() if _selected(value, seen.query)]
        start, limit = int(seen.query.get("continue", 0)), int(seen.query.get("limit", 0)) or len(found)
        following = str(start + limit) if start + limit < len(found) else ""
        is_metadata = "PartialObjectMetadataList" in seen.headers["Accept"]
        name = "PartialObjectMetadataList" if is_metadata else f"{kind[:-1].capitalize()}List"
        metadata = {"resourceVersion": str(self.version), "continue": following}
        return _json({"kind": name, "metadata": metadata, "items": found[start : start + limit]})

    def print(self, pod: str, text: bytes | None) -> None:
        """Into its log; None: it ends, and the log is gone."""
        with self.printed:
            self.logs[pod] = self.logs.get(pod, b"") + (text or b"")
            if text is None:
                self.earlier_logs[pod] = self.earlier_logs.get(pod, b"") + self.logs.pop(pod)
            self.printed.notify_all()

    def begin_file(self, pod: str, text: bytes) -> None:
        """As a node does with a log that has become large: the API has only the new file."""
        with self.printed:
            self.earlier_logs[pod] = self.earlier_logs.get(pod, b"") + self.logs[pod]
            self.logs[pod] = text
            self.printed.notify_all()

    def more_of(self, pod: str, sent: int) -> bytes:
        def printed() -> bytes:
            return self.earlier_logs.get(pod, b"") + self.logs.get(pod, b"")

        with self.printed:
            self.followed[pod] = sent
            self.printed.notify_all()
            self.printed.wait_for(lambda: len(printed()) > sent or pod not in self.logs or pod in self.cut, 60)
            if more := printed()[sent:]:
                return more
            self.cut.discard(pod)
            self.followed.pop(pod, None)  # another stream of it may have ended first
            self.printed.notify_all()
            return b""

    def until_followed(self, pod: str) -> None:
        """A stream has come to where its log is now."""
        with self.printed:
            end = len(self.earlier_logs.get(pod, b"") + self.logs[pod])
            assert self.printed.wait_for(lambda: self.followed.get(pod) == end, 20), "nobody follows it"

    def cut_stream(self, pod: str) -> None:
        """Its log goes on."""
        with self.printed:
            self.cut.add(pod)
            self.printed.notify_all()
            assert self.printed.wait_for(lambda: pod not in self.cut, 20), "nobody follows it"

    def _log(self, pod: str, query: dict[str, str]) -> bytes:
        if pod not in self.logs:
            raise Answered(400, "BadRequest", f"container crawl in pod {pod} is waiting to start")
        lines = self.logs[pod].splitlines(keepends=True)
        text = b"".join(lines[-int(query["tailLines"]) :]) if "tailLines" in query else self.logs[pod]
        return text[: int(query["limitBytes"])] if "limitBytes" in query else text


def _selected(value: Json, query: dict[str, str]) -> bool:
    labels = value["metadata"].get("labels", {})
    for part in re.split(r",(?![^(]*\))", query.get("labelSelector", "")):
        name, _, wanted = part.replace(" in ", "=").partition("=")
        if name and (name not in labels or (wanted and labels[name] not in wanted.strip("()").split(","))):
            return False
    for part in filter(None, query.get("fieldSelector", "").split(",")):
        name, _, wanted = part.partition("=")
        found: Any = value
        for step in name.split("."):
            found = found.get(step, {})
        if found != wanted:
            return False
    return True


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _handler(server: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else every answer on a connection that is kept takes 40 ms

        def answer(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            if len(body) < length:  # whoever asked has thought better of it
                self.close_connection = True
                return
            seen = Seen(
                self.command, parts.path, query, dict(self.headers), json.loads(body or b"{}"), self.client_address[1]
            )
            with server.lock:
                server.seen.append(seen)
                faults = [each for each in server.faults if each.method == seen.method and each.within in self.path]
                fault = faults[0] if faults else None
                if fault:
                    server.faults.remove(fault)
            try:
                server.admit(self.headers.get("Authorization", ""))
                if fault and fault.hang:
                    fault.hang.wait(60)
                if fault:
                    time.sleep(fault.after)
                if fault and fault.drop == "before":
                    self.close_connection = True
                    return
                if fault and fault.answer:
                    raise fault.answer
                if "follow" in query:
                    self.follow(parts.path)
                    return
                if "watch" in query:
                    self.stream()
                    return
                status, answer = server.carry_out(seen)
            except Answered as error:
                body, headers = self.packed(_json(error.body), fault)
                self.send(error.status, body, {**headers, **error.headers})
                return
            if fault and fault.drop == "after":
                self.close_connection = True
                return
            body, headers = self.packed(answer, fault)
            if fault and fault.drips:
                self.drip(body, headers, fault.drips)
            else:
                self.send(status, body, headers)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 (the base class calls them)

        def packed(self, answer: bytes, fault: Fault | None) -> tuple[bytes, dict[str, str]]:
            name = fault.packed_as if fault else ""
            if not name and (len(answer) <= LONGEST_UNPACKED or "gzip" not in self.headers.get("Accept-Encoding", "")):
                return answer, {}
            packed = gzip.compress(answer, compresslevel=1)
            spoiled = fault.spoils(packed) if fault and fault.spoils else packed
            return spoiled, {"Content-Encoding": name or "gzip"}

        def stream(self) -> None:
            with server.lock:
                lines = server.watching.pop(0) if server.watching else []
            if isinstance(lines, Answered):
                raise lines
            if isinstance(lines, threading.Event):
                self.send_response(200)
                self.end_headers()
                lines.wait(60)
                self.close_connection = True
                return
            if callable(lines):
                lines = lines()
            self.send(200, b"".join(line + b"\n" for line in lines), {})

        def drip(self, body: bytes, headers: dict[str, str], over: threading.Event) -> None:
            self.send_response(200)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # whoever asked may have given up
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    if over.wait(0.02):
                        break
            self.close_connection = True

        def follow(self, path: str) -> None:
            """A log as it grows, until there is none of it any more."""
            pod = path.split("/")[-2]
            sent = len(server.earlier_logs.get(pod, b""))
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with suppress(ConnectionError):  # whoever followed may have given up
                while more := server.more_of(pod, sent):
                    sent += len(more)
                    self.wfile.write(f"{len(more):x}\r\n".encode() + more + b"\r\n")
                self.wfile.write(b"0\r\n\r\n")

        def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # whoever asked may have given up
                self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # many logs are asked for at once


@contextmanager
def an_api_server() -> Iterator[ApiServer]:
    server = ApiServer()
    http = _Server(("127.0.0.1", 0), _handler(server))
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join(20)


def an_access(server: ApiServer, folder: Path, token: str = "first", **changes: Any) -> ApiAccess:
    """By a kubeconfig file whose token is in a file of its own, as it is where tokens are renewed."""
    (folder / "token").write_text(token + "\n")
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "us"}}],
        "clusters": [{"name": "here", "cluster": {"server": server.url}}],
        "users": [{"name": "us", "user": {"tokenFile": str(folder / "token")}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(config))
    given: dict[str, Any] = {"connect_seconds": 20, "read_seconds": 20}
    return ApiAccess(NAMESPACE, kubeconfig=folder / "kubeconfig", **given | changes)


def a_change(kind: str, version: int, run_uid: str | None = None) -> bytes:
    labels = {"crawler-lifecycle/run-uid": run_uid} if run_uid else {}
    metadata = {"name": "job", "uid": "uid", "resourceVersion": str(version), "labels": labels}
    return _json({"type": kind, "object": {"kind": "PartialObjectMetadata", "metadata": metadata}})
