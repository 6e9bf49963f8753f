"""AWS clients, and the translation of their errors. Credentials come from AWS's variables, files and roles."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    TokenRetrievalError,
)

from crawler_lifecycle.errors import NotReady, TemporaryError

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # reached without a proxy
# Only an operator can mend an error with one of these statuses or codes: credentials, rights or a name are wrong.
# EventBridge and SQS answer with these codes and status 400.
OPERATOR_STATUSES = (401, 403, 404)
OPERATOR_CODES = (
    "ResourceNotFoundException",
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
    "AccessDeniedException",
    "UnrecognizedClientException",
    "ExpiredTokenException",
)
WITHOUT_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, TokenRetrievalError)


def make_client(
    service: str,
    endpoint: str | None,
    variable: str,
    *,
    region: str | None,
    seconds: float,
    tries: int,
    path_style: bool = False,
) -> Any:
    """Return a client for many threads. Raise NotReady for unusable settings.

    `endpoint` is None for AWS's own servers; `variable` names the endpoint's setting in messages. A failing request is
    sent at most `tries` times, and each try takes at most `seconds`.
    """
    config = Config(
        connect_timeout=min(3.0, seconds),
        read_timeout=seconds,
        retries={"mode": "standard", "total_max_attempts": tries},
        s3={"addressing_style": "path" if path_style else "auto"},
        proxies={} if endpoint and urlsplit(endpoint).hostname in LOOPBACK else None,
        # servers other than AWS do not know its newer checksums
        request_checksum_calculation="when_required" if endpoint else None,
        response_checksum_validation="when_required" if endpoint else None,
    )
    try:
        return boto3.session.Session().client(service, region_name=region, endpoint_url=endpoint, config=config)
    except NoRegionError as error:
        group = variable.rpartition("__")[0]
        raise NotReady(f"{group}__REGION: no region is set, here or in AWS_DEFAULT_REGION") from error
    except ValueError as error:
        raise NotReady(f"{variable}: expected an address such as https://s3.example.com, not {endpoint!r}") from error
    except BotoCoreError as error:
        raise NotReady(f"no client for {service} can be made: {error}") from error


@contextmanager
def translated_errors(service: str, remedy: str) -> Iterator[None]:
    """Turn AWS errors in the block into NotReady if an operator has to act, and else into TemporaryError.

    `remedy` advises the operator what to check if the server refuses a request.
    """
    try:
        yield
    except WITHOUT_CREDENTIALS as error:
        raise NotReady(
            f"{service} needs credentials: {error}; AWS_ACCESS_KEY_ID, a profile or a role gives them"
        ) from error
    except ClientError as error:
        answer = error.response.get("Error", {})
        message = f"{service} answers {answer.get('Code', 'an error')}: {answer.get('Message', '')}".rstrip(": ")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status in OPERATOR_STATUSES or answer.get("Code") in OPERATOR_CODES:
            raise NotReady(f"{message}; {remedy}") from error
        raise TemporaryError(message) from error
    except BotoCoreError as error:
        raise TemporaryError(f"{service} cannot be reached: {error}") from error
