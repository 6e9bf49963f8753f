"""Memory of a run's tasks: quantities of Kubernetes times a factor."""

import pytest

from crawler_lifecycle.model.deployment import Crawler, Resources
from crawler_lifecycle.runs.rules.plan import times, with_memory


@pytest.mark.parametrize(
    ("quantity", "factor", "product"),
    [
        ("1Gi", 2, "2048Mi"),
        ("1.5Gi", 1.5, "2304Mi"),
        ("256Mi", 1.25, "320Mi"),
        ("512Ki", 4, "2Mi"),
        ("1Gi", 1.1, "1181116007"),
        ("500M", 2, "1000000000"),
        ("100k", 0.5, "50000"),
        ("1e9", 3, "3000000000"),
        ("+2E-1", 1, "1"),
        ("1500m", 1, "2"),
        ("3", 1.5, "5"),
        (".5Ti", 2, "1048576Mi"),
    ],
)
def test_a_product_has_whole_mebibytes_or_bytes(quantity: str, factor: float, product: str) -> None:
    Resources(memory=quantity)  # the catalogue takes the quantity
    assert times(quantity, factor) == product
    Resources(memory=product)


def test_an_entry_without_memory_stays_as_it_is() -> None:
    entry = Crawler(name="books", resources=Resources(cpu="2"))
    assert with_memory(entry, 4) is entry
    large = Crawler(name="books", resources=Resources(cpu="2", memory="1Gi"))
    assert with_memory(large, 1.0) is large
    assert with_memory(large, 4).resources == Resources(cpu="2", memory="4096Mi")
