"""Managers by an author, for several tests."""

from collections.abc import Iterable, Iterator
from typing import Any

from crawler_lifecycle.managers import GeneratorCrawlManager


class Shops(GeneratorCrawlManager):
    """Starts a job for each of the given names."""

    name = "nightly"
    spider = "books"
    loop_mode = 60
    default_max_jobs = 10
    names: Iterable[str] = "abc"

    def set_parameters_gen(self) -> Iterator[Any]:
        for name in self.names:
            yield {"shop": name}


def shops_with(**attributes: Any) -> type[Shops]:
    return type("Some", (Shops,), attributes)
