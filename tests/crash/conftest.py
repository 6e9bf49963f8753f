"""Summary line of the crash matrix: a port that the matrix no longer sees makes its numbers smaller."""

import pytest

from tests.crash.calls import CALLS, of_activities


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [each for reports in terminalreporter.stats.values() for each in reports]
    cases = {name for each in reports if "tests/crash/test_matrix" in (name := getattr(each, "nodeid", ""))}
    if cases:
        calls = f"{len(of_activities())} calls of ports by activities, {sum(map(len, CALLS.values()))} by other parts"
        terminalreporter.write_line(f"crash matrix: {len(cases)} cases were run, {calls}")
