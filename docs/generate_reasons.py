"""The reference of causes and reasons, made from the comments in `model/reasons.py`."""

import inspect
import re

from crawler_lifecycle.model import reasons

ABOVE = """# Causes and reasons

A **cause** is the word for why a task or run waits now; a **reason**, for why it ended. Runs, tasks, notices and events
carry these words, so a word never changes. A program that fails with an exit code has the reason `exit_N`, or a word of
its own below; one that a signal ended, `sigN`. [Retries](../howto/retries.md#retried-failures) lists the reasons of the
infrastructure.
"""
TITLES = {
    "causes: why a task or run waits": "Causes of a task or run that waits",
    "causes: why a job in the cluster waits, or its present trouble": "Causes of a job in the cluster that waits",
    "reasons: why a run or task ended": "Reasons of an end",
    "reasons for exit codes with a usual meaning": "Reasons of exit codes",
}
WORD = re.compile(r'^[A-Z_]+ = \(?\s*((?:"\w+"(?:, )?)+)\)?  # (.+)$', re.MULTILINE)


def page() -> str:
    source = re.sub(r'\(\n\s+("\w+"  # .+)\n\)', r"\1", inspect.getsource(reasons))
    parts = re.split(r"^# ((?:causes|reasons).+)$", source, flags=re.MULTILINE)[1:]
    tables = []
    for head, text in zip(parts[::2], parts[1::2], strict=True):
        rows = [(words.replace('"', "`"), meaning) for words, meaning in WORD.findall(text)]
        rows += [(f"`{word}`", f"exit code {code}") for code, word in _exit_codes(text)]
        cells = "".join(f"| {word} | {meaning} |\n" for word, meaning in rows)
        tables.append(f"\n## {TITLES[head]}\n\n| word | meaning |\n| --- | --- |\n{cells}")
    return ABOVE + "".join(tables)


def _exit_codes(text: str) -> list[tuple[int, str]]:
    return list(reasons.BY_EXIT_CODE.items()) if "BY_EXIT_CODE = " in text else []
