"""Pod shapes and quantities for tests: the same samples go to our own checks and to a real API server."""

SHAPED = """
[crawlers.books]
image = "books:1"
resources = { cpu = "1", memory = "1Gi", ephemeral_storage = "10Gi" }

[crawlers.books.pod]
labels = { "example.com/team" = "books", "app.kubernetes.io/part-of" = "shop" }
annotations = { "example.com/owner" = "ann@example.com", "kubernetes.io/egress-bandwidth" = "10M" }
node_selector = { "example.com/pool" = "crawls", "kubernetes.io/arch" = "amd64" }
priority_class = "crawls"
queue = "crawls"

[[crawlers.books.pod.tolerations]]
key = "example.com/pool"
value = "crawls"
effect = "NoSchedule"

[[crawlers.books.pod.tolerations]]
key = "example.com/spot"
operator = "Exists"
effect = "NoExecute"
seconds = 60
"""

GOOD_QUANTITIES = ("1", "500m", "0.5", ".5", "5.", "+2", "1Gi", "1.5Gi", "64Mi", "2k", "1E", "1e3", "1E3", "5e-1", "0")
WRONG_QUANTITIES = ("", "1 Gi", "1gi", "1GB", "1K", "1g", "-1", "1,5", "1..5", "one", "0x10", "1ki", "1e")

GOOD_KEYS = ("a", "A-b_c.9", "example.com/a", "a.b-c.d/E", "9/9", "x" * 63, f"{'d' * 180}/{'x' * 63}")
WRONG_KEYS = ("", "/a", "a/", "a/b/c", "a b", "-a", "a-", "a..b/c", "a_b/c", "-a/b", "é", "x" * 64, f"{'d' * 254}/x")

GOOD_VALUES = ("", "a", "A-b_c.9", "0", "x" * 63)
WRONG_VALUES = (" ", "a b", "-a", "a-", "a/b", "é", "a\n", "x" * 64)

GOOD_NAMES = ("a", "high", "a-b.c", "9", "x" * 63)
WRONG_NAMES = ("A", "a_b", "-a", "a-", "a..b", "a b", "a/b", "x" * 254)

GOOD_TOLERATIONS = (
    {"key": "a"},
    {"key": "a", "operator": "Equal", "value": "b"},
    {"key": "a", "value": ""},
    {"key": "a", "operator": "Exists"},
    {"key": "a", "operator": "Exists", "value": ""},
    {"key": "a", "effect": "NoExecute"},
    {"key": "a", "effect": "NoExecute", "seconds": 0},
    {"key": "a", "effect": "PreferNoSchedule"},
)
WRONG_TOLERATIONS = (
    {"key": "a b"},
    {"key": "a", "operator": "exists"},
    {"key": "a", "operator": "In"},
    {"key": "a", "operator": "Exists", "value": "b"},
    {"key": "a", "value": "b c"},
    {"key": "a", "effect": "NoRun"},
    {"key": "a", "seconds": 3},
    {"key": "a", "effect": "NoSchedule", "seconds": 3},
)
