"""Limits of numbers, texts and times. A message about a larger value names the limit."""

MOST_MEMBERS = 10_000  # in a flow
MOST_DEPENDENCIES = 100_000  # in a flow
MOST_GROUPS = 10_000  # in a flow
DEEPEST = 20  # nested sub-workflows
LONGEST_NAME = 128  # characters in a name, an id or a key
LONGEST_FUNCTION = 512  # characters in `module:qualname`
MOST_ATTEMPTS = 100  # for a member, within a generation
MOST_RULES = 20  # in a retry policy
LARGEST_ARGUMENTS = 64 * 1024  # bytes as JSON, for a member's arguments
LARGEST_CONTEXT = 64 * 1024  # bytes as JSON, for a group's context
LARGEST_RESULT = 16 * 1024 * 1024  # bytes as JSON, for a member's result
LARGEST_READING = 64 * 1024 * 1024  # bytes as JSON, for the results in a reading
DEEPEST_VALUE = 100  # nested lists and objects in a value
LARGEST_SCHEDULED = 512 * 1024  # bytes as JSON, for a schedule's definition: Temporal keeps the definition
A_YEAR = 366 * 24 * 3600  # seconds
