"""Metrics common to all processes; `/metrics` shows them beside a process's own metrics.

Labels have few values: no metric names a run, a crawler or an address.
"""

from prometheus_client import Counter, Gauge, Histogram

SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30)  # buckets for statements and requests

STATEMENT_SECONDS = Histogram(
    "crawler_database_statement_seconds", "Time of a statement, also of a failed one", ["kind"], buckets=SECONDS
)
CONTENDED = Counter(
    "crawler_database_contended",
    "Transactions that gave way to another: `repeated`, or `given_up` after the last try",
    ["outcome"],
)
CONNECTIONS = Gauge("crawler_database_connections", "Connections to the database that are in use")
CONNECTION_LIMIT = Gauge("crawler_database_connection_limit", "Largest number of connections to the database")
