"""Rules for the memory of a run's tasks: the crawler's memory, times a factor."""

import re
from decimal import ROUND_CEILING, Decimal

from crawler_lifecycle.model.deployment import Crawler

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
    product = int((bytes_of(quantity) * Decimal(str(factor))).to_integral_value(ROUND_CEILING))
    return f"{product // MEBIBYTE}Mi" if product % MEBIBYTE == 0 else str(product)


def bytes_of(quantity: str) -> Decimal:
    match = QUANTITY.fullmatch(quantity)
    assert match is not None, f"the contract refuses {quantity!r}"
    number, binary, decimal, exponent = match.groups()
    if binary is not None:
        return Decimal(number) * Decimal(BINARY[binary])
    return Decimal(number).scaleb(DECIMAL[decimal] if decimal is not None else int(exponent or 0))
