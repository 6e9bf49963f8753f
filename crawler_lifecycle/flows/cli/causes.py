"""Causes for the waits by jobs in words, with commands against the waits."""

from crawler_lifecycle.flows.rules.words import (
    BROKEN_MODULE,
    EXECUTING,
    HOST,
    NO_SUPERVISOR,
    SILENT_HOST,
    START,
    UNKNOWN_STEP,
)

SENTENCES = {
    NO_SUPERVISOR: f"{NO_SUPERVISOR}: no worker continues the flow (crawlctl doctor shows the workers)",
    START: f"{START}: no worker has taken the crawl yet",
    UNKNOWN_STEP: f"{UNKNOWN_STEP}: no host's module has the function; start the host again with the present code",
}


def cause_in_words(cause: str | None) -> str | None:
    """Return the cause with its sentence; None for a repetition by the cause `executing`."""
    if cause is None or cause == EXECUTING:
        return None
    word, _, module = cause.partition(":")
    if word == HOST:
        return f"{cause}: no host has taken the step yet (python -m workers.flows {module})"
    if word == SILENT_HOST:
        return f"{cause}: its host is silent; another host takes the step over (python -m workers.flows {module})"
    if word == BROKEN_MODULE:
        return f"{word}: {module}; the step starts once the module is repaired"
    return SENTENCES.get(cause, cause)
