"""Summary line of the crash matrix: a port that the matrix no longer sees makes its numbers smaller."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [each for reports in terminalreporter.stats.values() for each in reports]
    run = [each.nodeid for each in reports if isinstance(each, pytest.TestReport)]  # without what was deselected
    cases = {name for name in run if "tests/crash/test_matrix" in name}
    if cases:
        from tests.crash.calls import CALLS, of_activities  # it reads the source of every part

        calls = f"{len(of_activities())} calls of ports by activities, {sum(map(len, CALLS.values()))} by other parts"
        terminalreporter.write_line(f"crash matrix: {len(cases)} cases were run, {calls}")
