"""Does whoever looks for a fault in the table find its test?"""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
DOCUMENT = TESTS.parent / "docs" / "internals" / "test-on-kubernetes.md"
DEFINED = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


def defined(folder: Path) -> set[str]:
    return {name for path in folder.rglob("test_*.py") for name in defined_in(path)}


def table() -> list[list[str]]:
    rows = DOCUMENT.read_text().split("## Which test makes which fault")[1].splitlines()
    return [row.strip("|").split("|") for row in rows if row.startswith("|")][2:]


def test_every_test_of_the_table_exists_where_it_says() -> None:
    on_the_bed, anywhere = defined(TESTS / "kubernetes"), defined(TESTS)
    for fault, runs, others in table():
        whole, alone = re.findall(r"`(test_\w+)`", runs), re.findall(r"`(test_\w+)`", others)
        assert set(whole) <= on_the_bed, fault
        assert set(alone) <= anywhere, fault
        assert alone, fault


def test_every_test_of_a_single_fault_is_in_the_table() -> None:
    single = {name for path in (TESTS / "kubernetes").glob("test_single_*.py") for name in defined_in(path)}
    assert single <= set(re.findall(r"`(test_\w+)`", DOCUMENT.read_text()))
    assert single


def defined_in(path: Path) -> list[str]:
    return DEFINED.findall(path.read_text())
