pytest_plugins = ["tests.databases", "tests.servers"]
