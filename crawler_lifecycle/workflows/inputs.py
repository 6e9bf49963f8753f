"""How does bad input end a workflow at once, with a line that names the field?

The SDK would try for ever to decode an input that does not fit; so inputs arrive undecoded and are validated
in the workflow's first lines.
"""

from typing import TypeVar

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from crawler_lifecycle.contract.requests import parse
from crawler_lifecycle.errors import BadInput

M = TypeVar("M", bound=BaseModel)


NOTHING = RawValue(Payload())  # where the caller gave no input at all


def decoded(model: type[M], raw: RawValue) -> M:
    is_json = raw.payload.metadata.get("encoding") == b"json/plain"
    try:
        return parse(model, raw.payload.data if is_json else b"null")
    except BadInput as error:
        raise ApplicationError(error.message, type="BadInput", non_retryable=True) from error
