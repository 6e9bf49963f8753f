"""Endpoint for a run's archive, sent from a folder or by a redirect to a bucket."""

from http import HTTPStatus
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Query, Request
from starlette.datastructures import Headers
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from crawler_lifecycle.delivery.ports import RunArchive
from crawler_lifecycle.http.problems import Responses, problem, problems
from crawler_lifecycle.http.state import READING, ApiState, ForCallers, Run, api_state


class ReadsArchives(Protocol):
    def archive(self, run: int | str, end: int | None = None) -> RunArchive:
        """Return an end's archive, by default the last end's archive."""


class HasArchives(ForCallers, Protocol):
    @property
    def runs(self) -> ReadsArchives: ...


CurrentApi = Annotated[ApiState[HasArchives], Depends(api_state)]
CHECKSUM_HEADER = "X-Archive-SHA256"
_TEXT = {"type": "string"}
_CHECKSUM = {CHECKSUM_HEADER: {"description": "checksum of the archive, in hexadecimal digits", "schema": _TEXT}}
_ZIP = {"application/zip": {"schema": _TEXT | {"format": "binary"}}}
_ADDRESS = {"type": "object", "properties": {"url": _TEXT}, "required": ["url"]}
ARCHIVE: Responses = {
    200: {
        "description": "The zip; for an archive in a bucket, with `Accept: application/json`, its signed address.",
        "headers": _CHECKSUM,
        "content": _ZIP | {"application/json": {"schema": _ADDRESS}},
    },
    206: {"description": "The requested range.", "headers": _CHECKSUM, "content": _ZIP},
    307: {"description": "In a bucket: `Location` is an address signed for 15 minutes.", "headers": _CHECKSUM},
}

router = APIRouter(prefix="/v1", tags=["reading"])


@router.get(
    "/runs/{run}/archive",
    response_class=Response,
    dependencies=READING,
    responses=ARCHIVE
    | problems(
        _404="There is no such run or end, or the run has left no files.",
        _400="The range cannot be read.",
        _416="The range is not in the archive.",
        _409="The run is not over, or its archive could not be made.",
    ),
)
async def get_archive(
    api: CurrentApi,
    run: Run,
    request: Request,
    end: Annotated[
        int | None, Query(ge=1, le=10**9, description="number of the end, for a reopened run; default: the last end")
    ] = None,
) -> Response:
    """Send the zip of a run's files, also in ranges. For an archive in a bucket the answer is a redirect to an address
    that is signed for some minutes and needs no token, or with `Accept: application/json` the address itself.
    """
    run_archive = await api.archive_readers.run(api.control.runs.archive, run, end)
    if run_archive.stored.url is None:
        return _file_response(run_archive)
    # a page may fetch from its own server only: it asks for the address and lets the browser go there
    return _in_bucket(run_archive, as_json="application/json" in request.headers.get("accept", ""))


def _in_bucket(run_archive: RunArchive, *, as_json: bool) -> Response:
    url = str(run_archive.stored.url)
    headers = _checksum_header(run_archive) | {"Cache-Control": "no-store", "Vary": "Accept"}
    return JSONResponse({"url": url}, headers=headers) if as_json else RedirectResponse(url, 307, headers=headers)


def _file_response(run_archive: RunArchive) -> Response:
    assert run_archive.stored.path is not None, "an archive is a file or an address"
    etag = {"ETag": f'"{run_archive.sha256}"'} if run_archive.sha256 else {}
    headers = _checksum_header(run_archive) | etag | {"Cache-Control": "private, no-cache"}
    return ArchiveFile(
        run_archive.stored.path, headers=headers, media_type="application/zip", filename=run_archive.stored.name
    )


class ArchiveFile(FileResponse):
    """A file sent in ranges. The framework refuses a wrong range in plain text; this class sends a problem instead."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = list[Message]()  # messages for an error response, not sent

        async def send_file(message: Message) -> None:
            if refusal or message.get("status", 200) >= HTTPStatus.BAD_REQUEST:
                refusal.append(message)
            else:
                await send(message)

        await super().__call__(scope, receive, send_file)
        if refusal:
            start = refusal[0]
            content_range = Headers(raw=start["headers"]).get("content-range")  # has the size of the file
            headers = {"Content-Range": content_range} if content_range else None
            response = problem(start["status"], "expected one or more ranges of bytes", "Range", headers)
            await response(scope, receive, send)


def _checksum_header(run_archive: RunArchive) -> dict[str, str]:
    return {CHECKSUM_HEADER: run_archive.sha256} if run_archive.sha256 else {}
