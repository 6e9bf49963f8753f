"""`crawlctl`, the command line. `program` names its commands; this file imports nothing, so that the first moments of
a command are short."""
