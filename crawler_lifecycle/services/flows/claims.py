"""Claims: a host's claimed attempts, and the thread for the renewal of their claims by the host's token.

The thread is not the event loop: whatever happens on the loop, the claims do not expire as long as the process lives.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import AttemptKey, StepClaims

logger = logging.getLogger(__name__)
RENEWALS = 10  # in the time of a claim: people's cancels are noticed by the way, too

# gets the claims held before a renewal, and the renewed claims with people's wish for their stop
Notify = Callable[[Collection[AttemptKey], Mapping[AttemptKey, bool]], None]


class HeldClaims:
    """All claims with a token. `notify` is called by the thread."""

    def __init__(self, claims: StepClaims, token: str, lasts: timedelta, notify: Notify) -> None:
        self._claims = claims
        self._token = token
        self._lasts = lasts
        self._notify = notify
        self._keys: set[AttemptKey] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="step-claims", daemon=True).start()

    def hold(self, key: AttemptKey) -> None:
        with self._lock:
            self._keys.add(key)

    def drop(self, key: AttemptKey) -> None:
        with self._lock:
            self._keys.discard(key)

    def close(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        pause = (self._lasts / RENEWALS).total_seconds()
        while not self._ended.wait(pause):
            with self._lock:
                held = set(self._keys)
            if held:
                self._renew(held)

    def _renew(self, held: set[AttemptKey]) -> None:
        try:
            renewed = self._claims.renew(self._token, self._lasts)
        except LifecycleError as error:
            logger.warning("claims of %d steps are not renewed: %s", len(held), error.message)
        except Exception:  # the thread must go on: without renewals, further hosts would take the steps over
            logger.exception("claims of %d steps are not renewed", len(held))
        else:
            self._notify(held, renewed)
