"""What every test may use."""

from hypothesis import settings

pytest_plugins = ["tests.clusters", "tests.databases", "tests.house", "tests.plays", "tests.servers"]

settings.register_profile("busy", deadline=None)  # what is slow on a busy machine is not wrong
settings.load_profile("busy")
