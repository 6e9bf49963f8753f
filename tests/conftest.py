"""What every test may use."""

import signal

from hypothesis import settings

pytest_plugins = ["tests.clusters", "tests.databases", "tests.house", "tests.plays", "tests.servers", "tests.stores"]

settings.register_profile("busy", deadline=None)  # what is slow on a busy machine is not wrong
settings.load_profile("busy")


def pytest_configure() -> None:
    """A shell starts what it puts into the background with SIGINT ignored, and what we start would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
