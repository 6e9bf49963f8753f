"""Endpoint for the archive of a run."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.datastructures import Headers
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from crawler_lifecycle.control.archives import RunArchive
from crawler_lifecycle.services.api.desk import READING, Here, Run
from crawler_lifecycle.services.api.document import ARCHIVE
from crawler_lifecycle.services.openapi import problems
from crawler_lifecycle.services.problems import problem

CHECKSUM = "X-Archive-SHA256"

router = APIRouter(prefix="/v1", tags=["reading"])


@router.get(
    "/runs/{run}/archive",
    response_class=Response,
    dependencies=READING,
    responses=ARCHIVE
    | problems(
        _404="There is no such run or end, or it has left no files.",
        _400="The range cannot be read.",
        _416="The range is not in the archive.",
        _409="The run is not over, or its archive could not be made.",
        _422="Not acceptable: `field` says what.",
    ),
)
async def archive(
    desk: Here,
    run: Run,
    end: Annotated[
        int | None, Query(ge=1, le=10**9, description="of a run that was reopened; default: the last")
    ] = None,
) -> Response:
    """Send the zip of a run's files, also in ranges. An archive in a bucket is a redirect to an address signed for some
    minutes, which needs no token.
    """
    found = await desk.archive_readers.run(desk.control.runs.archive, run, end)
    return _redirect(found) if found.stored.url is not None else _file(found)


def _redirect(found: RunArchive) -> Response:
    return RedirectResponse(str(found.stored.url), 307, headers=_checksum(found) | {"Cache-Control": "no-store"})


def _file(found: RunArchive) -> Response:
    assert found.stored.path is not None, "an archive is a file or an address"
    tag = {"ETag": f'"{found.sha256}"'} if found.sha256 else {}
    headers = _checksum(found) | tag | {"Cache-Control": "private, no-cache"}
    return ArchiveFile(found.stored.path, headers=headers, media_type="application/zip", filename=found.stored.name)


class ArchiveFile(FileResponse):
    """A file sent in ranges. A refusal is a problem, as at every other endpoint."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusals = list[Message]()

        async def sent(message: Message) -> None:
            if refusals or message.get("status", 200) >= HTTPStatus.BAD_REQUEST:
                refusals.append(message)
            else:
                await send(message)

        await super().__call__(scope, receive, sent)
        if refusals:
            size = Headers(raw=refusals[0]["headers"]).get("content-range")
            headers = {"Content-Range": size} if size else None
            await problem(refusals[0]["status"], "expected one or more ranges of bytes", "Range", headers)(
                scope, receive, send
            )


def _checksum(found: RunArchive) -> dict[str, str]:
    return {CHECKSUM: found.sha256} if found.sha256 else {}
