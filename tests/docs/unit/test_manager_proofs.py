"""`docs/internals/manager-proofs.md` has a row for every number, and the tests that the rows name exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
DOCUMENT = TESTS.parent / "docs" / "internals" / "manager-proofs.md"
DEFINED = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
NAMED = re.compile(r"`(test_\w+)`")
PROMISES = {str(number) for number in range(1, 69)}
FAULTS = {f"B{number}" for number in (1, 2, 3, 4, 7, 8, 10, 11, 12, 13)}
FAULTS |= {f"N{number}" for number in (1, 3, 4, 5, 7, 8, 11, 12, 13, 14)}
CASES = {f"T{number}" for number in [*range(1, 16), *range(17, 31)]}
LAST_FAILURES = "feceedkdjjdc"  # the last letter in each of the twelve groups
FAILURES = {
    f"5.{group}{chr(letter)}"
    for group, last in enumerate(LAST_FAILURES, start=1)
    for letter in range(ord("a"), ord(last) + 1)
}
REASON = "none: "  # in place of tests for a failure that cannot happen
OVERRIDDEN = (
    "on_start on_close base_loop_tasks workflow_loop check_running_jobs schedule_spider_with_jobargs get_job_settings "
    "max_running_jobs get_max_next_params can_schedule_job_with_params get_retry_override create_dupe_filter add_job "
    "set_close_reason append_flow_tag resume_workflow resume_running_job_hook resume_finished_job_hook"
)


def rows() -> list[list[str]]:
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def numbered_rows() -> list[tuple[list[str], list[str]]]:
    """Return the numbers and the tests of every row."""
    return [([number.strip() for number in row[0].split(",")], NAMED.findall(row[-1])) for row in rows()]


def is_named(number: str, tests: list[str]) -> bool:
    return any(number in test.split("_") for test in tests)


def test_every_number_has_tests() -> None:
    proved = {number for numbers, named in numbered_rows() if named for number in numbers}
    assert (PROMISES | FAULTS | CASES) - proved == set()


def test_every_promise_has_a_test_that_names_its_number() -> None:
    named = {number for numbers, tests in numbered_rows() for number in numbers if is_named(number, tests)}
    assert PROMISES - named == set()


def test_every_failure_has_tests_or_a_reason() -> None:
    proofs = {row[0]: row[-1] for row in rows() if row[0].startswith("5.")}
    assert proofs.keys() == FAILURES
    assert [number for number, proof in proofs.items() if "`test" not in proof and not proof.startswith(REASON)] == []
    assert sum(proof.startswith(REASON) for proof in proofs.values()) == 2


def test_every_named_test_exists() -> None:
    defined = {name for path in TESTS.rglob("test_*.py") for name in DEFINED.findall(path.read_text())}
    named = set(NAMED.findall(DOCUMENT.read_text()))
    assert named - defined == set()
    assert len(named) > 100


def test_every_named_place_exists() -> None:
    places = set(re.findall(r"`(tests/[\w/.]+)`", DOCUMENT.read_text()))
    assert {place for place in places if not (TESTS.parent / place).exists()} == set()


def test_every_numbered_test_has_a_row() -> None:
    """A test whose name has a number belongs to the row of the number."""
    text = DOCUMENT.read_text()
    numbered = [
        name
        for path in (TESTS / "managers").glob("test_*.py")
        for name in DEFINED.findall(path.read_text())
        if re.match(r"test_(and_)?[tbn]?\d", name)
    ]
    assert [name for name in numbered if f"`{name}`" not in text] == []


def test_every_method_for_authors_has_a_row() -> None:
    text = DOCUMENT.read_text()
    assert [method for method in OVERRIDDEN.split() if f"`{method}`" not in text] == []
