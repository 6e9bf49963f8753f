"""Watch for changes to local jobs, including changes made while no watcher ran.

Every change to a job touches the file `changed/<run_uid>`. The file stays until a watcher has passed the change on.
"""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

from watchfiles import Change, watch

from crawler_lifecycle.clusters.local.layout import Layout, names
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.naming import checked_uid

LONGEST_SILENCE_MS = 1000  # longest time without a change before an empty set is yielded
COLLECT_MS = 200  # changes within this time are yielded together
logger = logging.getLogger(__name__)


def watch_runs(layout: Layout) -> Iterator[set[str]]:
    """Yield the touched run_uids, indefinitely; an empty set after every silent second.

    While the folder cannot be watched, log each new problem once, yield empty sets and try again.
    """
    last_logged = ""
    while True:
        try:
            yield from _watch_once(layout)
        except OSError as error:
            # looks continue without a watcher, and the obstacle may go away
            if str(error) != last_logged:
                last_logged = str(error)
                logger.warning("changes of local jobs cannot be watched: %s", last_logged)
            time.sleep(LONGEST_SILENCE_MS / 1000)  # no event shows when the folder can be watched again
            yield set()


def _watch_once(layout: Layout) -> Iterator[set[str]]:
    """Yield the touched run_uids (none after a silence), then remove their files.

    Return when the folder was replaced, because the watch sees the old folder only.
    """
    layout.make()
    folder = layout.changed
    watched_inode = folder.stat().st_ino
    for changes in watch(
        folder,
        watch_filter=lambda change, _: change is not Change.deleted,
        debounce=COLLECT_MS,
        rust_timeout=LONGEST_SILENCE_MS,
        yield_on_timeout=True,
        recursive=False,
    ):
        # The listing adds files from before the watch: such files give no event. The events add files touched again
        # just before their removal: such files are in no listing.
        touched = {Path(path).name for _, path in changes} | set(names(folder))
        yield {name for name in touched if _is_run_uid(name)}
        for name in touched:
            (folder / name).unlink(missing_ok=True)
        if not folder.exists() or folder.stat().st_ino != watched_inode:
            return


def _is_run_uid(name: str) -> bool:
    try:
        return checked_uid(name) == name
    except BadInput:
        return False
