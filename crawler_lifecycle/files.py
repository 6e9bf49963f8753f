"""Authors' files in local folders and in S3, with the functions from shub-workflow's `futils`.

A path is local, or begins with `s3://`. Without own credentials, AWS's variables, files and roles count. The variable
AWS_ENDPOINT_URL_S3 names a server besides AWS.
"""

import glob as globbing
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, NamedTuple, TypedDict
from uuid import uuid4

from crawler_lifecycle.errors import BadInput

S3 = "s3://"
IN_MEMORY = 16 * 1024 * 1024  # bytes before a read object moves to a temporary file
DELETED_AT_ONCE = 1000  # S3's limit
WILD = "*?["


class Credentials(TypedDict, total=False):
    aws_access_key_id: str | None
    aws_secret_access_key: str | None
    aws_session_token: str | None


class ObjectKey(NamedTuple):
    bucket: str
    key: str


class FSHelper:
    """The functions, with credentials for S3. With a role, the credentials are renewed before they expire."""

    def __init__(
        self,
        aws_key: str | None = None,
        aws_secret: str | None = None,
        aws_role: str | None = None,
        aws_external_id: str | None = None,
        expiration_margin_minutes: float = 10,
        op_kwargs_by_method_name: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        aws_token: str | None = None,
        region: str | None = None,
    ) -> None:
        """Prepare the functions. `op_kwargs_by_method_name`: further arguments for S3, such as an ACL for uploads."""
        self._own = Credentials(
            aws_access_key_id=aws_key, aws_secret_access_key=aws_secret, aws_session_token=aws_token
        )
        self._role, self._external_id = aws_role, aws_external_id
        self._margin = timedelta(minutes=expiration_margin_minutes)
        self._options = op_kwargs_by_method_name or {}
        self._region = region or os.environ.get("AWS_REGION")
        self._client: Any = None
        self._expires_at: datetime | None = None

    # lists

    def list_folder(self, path: str) -> list[str]:
        """Return the paths directly in the folder, sorted; nothing for an absent folder."""
        if (place := _in_s3(path)) is None:
            whole = path.strip()
            name = whole.removesuffix("/")
            is_folder = bool(whole) and Path(whole).is_dir()  # an empty path is no folder, and not the root either
            return sorted(f"{name}/{inner.name}" for inner in Path(whole).iterdir()) if is_folder else []
        prefix = place.key and f"{place.key.removesuffix('/')}/"
        names: set[str] = set()
        for page in self._pages(ObjectKey(place.bucket, prefix), Delimiter="/"):
            names |= {entry["Key"] for entry in page.get("Contents", ()) if entry["Key"] != prefix}
            names |= {entry["Prefix"].removesuffix("/") for entry in page.get("CommonPrefixes", ())}
        return [f"{S3}{place.bucket}/{name}" for name in sorted(names)]

    def list_path(self, path: str) -> Iterator[str]:
        """Yield all objects below the path, a mere prefix included; locally, the paths directly in the folder."""
        if (place := _in_s3(path)) is None:
            yield from self.list_folder(path)
            return
        yield from (f"{S3}{place.bucket}/{entry['Key']}" for entry in self._objects(place))

    def list_folder_files_recursive(self, folder: str) -> Iterator[str]:
        """Yield the files in the folder and in all folders below, sorted."""
        if (place := _in_s3(folder)) is None:
            yield from sorted(str(path) for path in Path(folder).rglob("*") if path.is_file())
            return
        below = ObjectKey(place.bucket, place.key and f"{place.key.removesuffix('/')}/")
        keys = (entry["Key"] for entry in self._objects(below))
        yield from (f"{S3}{place.bucket}/{key}" for key in keys if not key.endswith("/"))

    def list_folder_in_ts_order(self, input_folder: str) -> Iterator[str]:
        """Yield the files directly in the folder, the oldest first."""
        if (place := _in_s3(input_folder)) is None:
            yield from sorted(self.list_folder(input_folder), key=lambda path: (Path(path).stat().st_mtime, path))
            return
        names = set(self.list_folder(input_folder))
        below = ObjectKey(place.bucket, place.key and f"{place.key.removesuffix('/')}/")
        times = [(entry["LastModified"], f"{S3}{place.bucket}/{entry['Key']}") for entry in self._objects(below)]
        yield from (name for _, name in sorted(times) if name in names)

    def get_glob(self, path: str) -> list[str]:
        """Return the files for the pattern, sorted. As in a shell, `*` matches no slash."""
        if (place := _in_s3(path)) is None:
            return sorted(globbing.glob(path))  # noqa: PTH207 - the paths stay as relative as the pattern
        begin = min((place.key.find(mark) for mark in WILD if mark in place.key), default=len(place.key))
        pattern = place.key.split("/")
        keys = (entry["Key"] for entry in self._objects(ObjectKey(place.bucket, place.key[:begin])))
        return [f"{S3}{place.bucket}/{key}" for key in sorted(keys) if _matches(key.split("/"), pattern)]

    # single files

    def exists(self, path: str) -> bool:
        """Return whether the path is a file or a folder."""
        if (place := _in_s3(path)) is None:
            return Path(path).exists()
        key = place.key.removesuffix("/")
        return any(entry["Key"] == place.key or entry["Key"].startswith(f"{key}/") for entry in self._objects(place))

    def get_file(self, path: str, mode: str = "r", **options: Any) -> IO[Any]:
        """Open the file as `open` does. A written object reaches S3 with its close, unless its block has failed."""
        if (place := _in_s3(path)) is None:
            return Path(path).open(mode, **options)
        kind = mode.replace("b", "").replace("t", "")
        if kind not in ("r", "w"):
            raise BadInput("mode", f"objects in S3 are read or written, and not opened as {mode!r}")
        if kind == "w":
            extra = self._options.get("get_file")
            return _Upload(mode, lambda name: self._upload(name, place, extra), options)
        content = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - the author closes the file
        self._s3.download_fileobj(place.bucket, place.key, content)
        content.seek(0)
        return content if "b" in mode else io.TextIOWrapper(content, **options)

    def download_file(self, path: str, dest: str | None = None) -> None:
        place = _needs_s3(path)
        self._s3.download_file(place.bucket, place.key, dest or Path(path).name)

    def upload_file(self, path: str, dest: str) -> None:
        self._upload(path, _needs_s3(_target(path, dest)), self._options.get("upload_file"))

    def upload_file_obj(self, robj: IO[bytes], dest: str) -> None:
        place, extra = _needs_s3(dest), self._options.get("upload_file_obj")
        self._s3.upload_fileobj(robj, place.bucket, place.key, ExtraArgs=dict(extra or {}))

    def cp_file(self, src_path: str, dest_path: str) -> None:
        dest_path = _target(src_path, dest_path)
        source, target = _in_s3(src_path), _in_s3(dest_path)
        if source is not None and target is not None:
            extra = dict(self._options.get("cp_file", {}))
            self._s3.copy({"Bucket": source.bucket, "Key": source.key}, target.bucket, target.key, ExtraArgs=extra)
        elif target is not None:
            self.upload_file(src_path, dest_path)
        else:
            Path(dest_path).parent.mkdir(parents=True, exist_ok=True)
            self.download_file(src_path, dest_path) if source is not None else shutil.copyfile(src_path, dest_path)

    def mv_file(self, src_path: str, dest_path: str) -> None:
        self.cp_file(src_path, dest_path)
        self.rm_file(src_path)

    def rm_file(self, path: str) -> None:
        if (place := _in_s3(path)) is None:
            Path(path).unlink()
        else:
            self._s3.delete_object(Bucket=place.bucket, Key=place.key)

    def empty_folder(self, path: str) -> list[str]:
        """Remove the files directly in the folder. Return their paths."""
        if (place := _in_s3(path)) is not None:
            return self._empty_s3_folder(place)
        files = [name for name in self.list_folder(path) if Path(name).is_file()]
        for name in files:
            self.rm_file(name)
        return files

    def touch(self, path: str) -> None:
        """Make an empty file. ValueError for an existing path."""
        if self.exists(path):
            raise ValueError(f"File {path} already exists")
        if _in_s3(path) is None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.get_file(path, "w").close()

    def s3_folder_size(self, path: str) -> int:
        """Return the sum over the objects' bytes in the folder."""
        place = _needs_s3(path)
        below = ObjectKey(place.bucket, place.key and f"{place.key.removesuffix('/')}/")
        return sum(entry["Size"] for entry in self._objects(below))

    # S3

    def _empty_s3_folder(self, place: ObjectKey) -> list[str]:
        prefix = place.key and f"{place.key.removesuffix('/')}/"
        pages = self._pages(ObjectKey(place.bucket, prefix), Delimiter="/")
        keys = sorted(entry["Key"] for page in pages for entry in page.get("Contents", ()) if entry["Key"] != prefix)
        for first in range(0, len(keys), DELETED_AT_ONCE):
            objects = [{"Key": key} for key in keys[first : first + DELETED_AT_ONCE]]
            answer = self._s3.delete_objects(Bucket=place.bucket, Delete={"Objects": objects, "Quiet": True})
            if errors := answer.get("Errors"):
                error, more = errors[0], f" (and {len(errors) - 1} more)" if errors[1:] else ""
                raise OSError(f"{S3}{place.bucket}/{error['Key']} is not removed: {error.get('Message')}{more}")
        return [f"{S3}{place.bucket}/{key}" for key in keys]

    def _pages(self, place: ObjectKey, **more: Any) -> Iterator[Any]:
        pages = self._s3.get_paginator("list_objects_v2")
        yield from pages.paginate(Bucket=place.bucket, Prefix=place.key, **more)

    def _objects(self, place: ObjectKey) -> Iterator[Any]:
        for page in self._pages(place):
            yield from page.get("Contents", ())

    def _upload(self, name: str, place: ObjectKey, extra: Mapping[str, Any] | None) -> None:
        self._s3.upload_file(name, place.bucket, place.key, ExtraArgs=dict(extra or {}))

    @property
    def _s3(self) -> Any:
        """The client, with credentials beyond the margin."""
        is_over = self._expires_at is not None and datetime.now(UTC) > self._expires_at - self._margin
        if self._client is None or is_over:
            self._client = self._session(self._credentials()).client("s3")
        return self._client

    def _session(self, credentials: Credentials) -> Any:
        from boto3.session import Session

        return Session(region_name=self._region, **credentials)

    def _credentials(self) -> Credentials:
        if self._role is None:
            return self._own
        about = {} if self._external_id is None else {"ExternalId": self._external_id}
        sts = self._session(self._own).client("sts")
        given = sts.assume_role(RoleArn=self._role, RoleSessionName=str(uuid4()), **about)["Credentials"]
        self._expires_at = given["Expiration"]
        return Credentials(
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
        )


class _Upload(io.TextIOWrapper):
    """A temporary file, uploaded by its close unless its block has failed."""

    def __init__(self, mode: str, upload: Callable[[str], None], options: Mapping[str, Any]) -> None:
        handle, self._path = tempfile.mkstemp()
        self._send, self._has_failed, self._is_binary = upload, False, "b" in mode
        super().__init__(os.fdopen(handle, "wb"), **options)

    def write(self, content: Any) -> int:
        written: int = self.buffer.write(content) if self._is_binary else super().write(content)  # type: ignore[assignment]
        return written

    def __exit__(self, kind: Any, *rest: Any) -> None:
        self._has_failed = kind is not None
        super().__exit__(kind, *rest)

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
            if not self._has_failed:
                self._send(self._path)
        finally:
            Path(self._path).unlink()


def _in_s3(path: str) -> ObjectKey | None:
    """Return the bucket and key; None for a local path."""
    if not path.startswith(S3):
        if "://" in path:
            raise BadInput("path", f"{path!r}: only local paths and {S3}BUCKET/KEY are known")
        return None
    bucket, _, key = path.strip().removeprefix(S3).partition("/")
    if not bucket:
        raise BadInput("path", f"{path!r} names no bucket: {S3}BUCKET/KEY")
    return ObjectKey(bucket, key)


def _needs_s3(path: str) -> ObjectKey:
    if (place := _in_s3(path)) is None:
        raise ValueError(f"{path} is no path in S3: use cp_file for local files")
    return place


def _target(source: str, target: str) -> str:
    """Return the target's path; a target with a slash at its end is a folder."""
    return f"{target}{Path(source).name}" if target.endswith("/") else target


def _matches(parts: list[str], pattern: list[str]) -> bool:
    return len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern))


_default = FSHelper()
cp_file = _default.cp_file
download_file = _default.download_file
empty_folder = _default.empty_folder
exists = _default.exists
get_file = _default.get_file
get_glob = _default.get_glob
list_folder = _default.list_folder
list_folder_files_recursive = _default.list_folder_files_recursive
list_folder_in_ts_order = _default.list_folder_in_ts_order
list_path = _default.list_path
mv_file = _default.mv_file
rm_file = _default.rm_file
s3_folder_size = _default.s3_folder_size
touch = _default.touch
upload_file = _default.upload_file
upload_file_obj = _default.upload_file_obj
