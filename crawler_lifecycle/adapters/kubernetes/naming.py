"""How is a job of ours called, and by which labels is it found?

The Job and its pods carry the same labels; whatever is read is selected by installation and run.
"""

from collections.abc import Iterable
from uuid import UUID

from crawler_lifecycle.errors import BadInput

PREFIX = "crawler-lifecycle/"
INSTALLATION = PREFIX + "installation"
RUN_UID = PREFIX + "run-uid"
TASK = PREFIX + "task"
ATTEMPT = PREFIX + "attempt"
SPEC_HASH = PREFIX + "spec-hash"
NOT_AFTER = PREFIX + "not-after"  # an annotation: until then a late copy of the request may still make the job

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def checked(run_uid: str) -> str:
    """The run_uid, which is safe as a label and in a name, or BadInput."""
    try:
        if str(UUID(run_uid)) == run_uid:
            return run_uid
    except ValueError:
        pass
    raise BadInput("run_uid", f"expected a UUID such as 123e4567-e89b-12d3-a456-426614174000, not {run_uid!r}")


def selector(installation: str | None, run_uid: str | None = None, tasks: Iterable[int] = ()) -> str:
    """Selects by label; no installation means anybody's, no tasks means all."""
    parts = [INSTALLATION if installation is None else f"{INSTALLATION}={installation}"]
    if run_uid is not None:
        parts.append(f"{RUN_UID}={run_uid}")
    if numbers := sorted(set(tasks)):
        parts.append(f"{TASK} in ({','.join(map(str, numbers))})")
    return ",".join(parts)
