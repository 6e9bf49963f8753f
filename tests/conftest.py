pytest_plugins = ["tests.clusters", "tests.databases", "tests.house", "tests.plays", "tests.servers"]
