"""shub-workflow's functions for files. A call may have its own credentials."""

from collections.abc import Callable, Mapping
from typing import Any

from crawler_lifecycle.files import FSHelper


def _function(name: str) -> Callable[..., Any]:
    """Return the helper's method as a function with credentials."""

    def call(
        *paths: Any,
        aws_key: str | None = None,
        aws_secret: str | None = None,
        aws_token: str | None = None,
        region: str | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        methods = None if op_kwargs is None else {name: op_kwargs}
        helper = FSHelper(
            aws_key, aws_secret, op_kwargs_by_method_name=methods, aws_token=aws_token, region=region
        )  # fmt: skip
        return getattr(helper, name)(*paths, **options)

    return call


cp_file = _function("cp_file")
download_file = _function("download_file")
empty_folder = _function("empty_folder")
exists = _function("exists")
get_file = _function("get_file")
get_glob = _function("get_glob")
list_folder = _function("list_folder")
list_folder_files_recursive = _function("list_folder_files_recursive")
list_folder_in_ts_order = _function("list_folder_in_ts_order")
list_path = _function("list_path")
mv_file = _function("mv_file")
rm_file = _function("rm_file")
s3_folder_size = _function("s3_folder_size")
touch = _function("touch")
upload_file = _function("upload_file")
upload_file_obj = _function("upload_file_obj")
