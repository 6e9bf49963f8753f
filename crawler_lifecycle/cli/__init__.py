"""`crawlctl`, the command line. `program` names its commands. This file has no imports, for fast starts."""
