"""Rules for the plan of a run: the request with the crawler's and the installation's defaults, and the memory."""

import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import MOST_LABELS, AcceptedRequest, KeptRequest
from crawler_lifecycle.model.retries import Retries
from crawler_lifecycle.model.run_plan import Clock, RunPlan, RunRef

QUANTITY = re.compile(r"\+?([0-9.]+)(?:([KMGTPE]i)|([numkMGTPE])|[eE]([-+]?[0-9]+))?")
BINARY = {suffix: 2 ** (10 * power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}  # powers of ten
MEBIBYTE = 1024 * 1024


def with_memory(entry: Crawler, factor: float) -> Crawler:
    """Return the entry with its memory multiplied by `factor`. An entry without memory stays as it is."""
    memory = entry.resources.memory
    if memory is None or factor == 1.0:
        return entry
    resources = entry.resources.model_copy(update={"memory": times(memory, factor)})
    return entry.model_copy(update={"resources": resources})


def times(quantity: str, factor: float) -> str:
    """Return the quantity times the factor, in whole mebibytes if possible, otherwise in bytes, rounded up.

    Kubernetes warns about fractions of a byte.
    """
    product = int((amount_of(quantity) * Decimal(str(factor))).to_integral_value(ROUND_CEILING))
    return f"{product // MEBIBYTE}Mi" if product % MEBIBYTE == 0 else str(product)


def amount_of(quantity: str) -> Decimal:
    """Return the quantity as a number, such as 0.5 for `500m`, and 1024 for `1Ki`."""
    match = QUANTITY.fullmatch(quantity)
    assert match is not None, f"the contract refuses {quantity!r}"
    number, binary, decimal, exponent = match.groups()
    if binary is not None:
        return Decimal(number) * Decimal(BINARY[binary])
    return Decimal(number).scaleb(DECIMAL[decimal] if decimal is not None else int(exponent or 0))


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The installation's limits and defaults for runs. None: no limit."""

    most_tasks: int = 10_000  # in a run
    grace_seconds: int = 30
    start_limit_seconds: int | None = None
    max_duration_seconds: int | None = None
    clusters: tuple[str, ...] = ("default",)


@dataclass(frozen=True, slots=True)
class Abilities:
    """Describe the servers around a run, as far as its workflow depends on them."""

    search_attributes: bool = False  # the Temporal server knows our search attributes
    records_stay: bool = False  # the cluster keeps ended jobs as records, so that no job is removed


NO_ABILITIES = Abilities()


def plan_of(run: RunRecord, limits: RunLimits, abilities: Abilities, clock: Clock | None = None) -> RunPlan:
    """Return the supervisor's plan for a recorded run. `clock`: the limit clock so far; None: a new clock."""
    request = run.request
    return RunPlan(
        run=RunRef(run_id=run.run_id, run_uid=run.run_uid, epoch=run.epoch),
        crawler=run.crawler,
        trigger=run.trigger,
        tasks=sum(run.tasks.values()),
        # a supervisor of a run that is over repeats the deliveries of the last end
        end=run.end_number if run.status.is_over else run.end_number + 1,
        begun_at=run.begun_at,
        start_limit_seconds=request.start_limit_seconds,
        max_duration_seconds=request.max_duration_seconds,
        grace_seconds=request.grace_seconds or limits.grace_seconds,
        report=request.report,
        clock=clock or Clock(),
        search_attributes=abilities.search_attributes,
        records_stay=abilities.records_stay,
        flow=request.flow_awaiting_archive,
    )


def planned(request: AcceptedRequest, entry: Crawler, limits: RunLimits) -> KeptRequest:
    """Return the request with its open fields filled in by the crawler's values, or by the installation's defaults.

    BadInput for an unknown cluster, or for more tasks than the installation allows.
    """
    if request.cluster not in limits.clusters:
        raise BadInput("cluster", f"there is no cluster {request.cluster!r} here, only {', '.join(limits.clusters)}")
    tasks = request.tasks or entry.processes
    if tasks > limits.most_tasks:
        raise BadInput("tasks", f"{tasks} are asked for, this installation allows {limits.most_tasks} in a run")
    labels = sorted({*entry.labels, *request.labels})
    if len(labels) > MOST_LABELS:
        raise BadInput("labels", f"{len(labels)} with the crawler's, a run has at most {MOST_LABELS}")
    values = request.model_dump() | {"labels": labels}
    filled = {
        "tasks": tasks,
        "max_parallel": request.max_parallel or entry.max_parallel,
        "start_limit_seconds": request.start_limit_seconds or entry.start_limit_seconds or limits.start_limit_seconds,
        "max_duration_seconds": request.max_duration_seconds
        or entry.max_duration_seconds
        or limits.max_duration_seconds,
        "grace_seconds": request.grace_seconds or entry.grace_seconds or limits.grace_seconds,
        "priority": request.priority if request.priority is not None else entry.priority or 0,
        "retries": request.retries or entry.retries or Retries(),
    }
    left_open = [name for name in filled if values[name] is None]
    return KeptRequest(**values | filled, left_open=left_open)
