"""Leases: a host's right to its claims, renewed by a thread of its own.

The thread is not the event loop: whatever happens on the loop, the lease lasts as long as the process lives.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.flows.ports.claims import AttemptKey, StepClaims

logger = logging.getLogger(__name__)
RENEWALS = 10  # in the time of a lease: each renewal also notices people's cancels

# receives the attempts held before a renewal, and the host's claims with people's stop requests
Notify = Callable[[Collection[AttemptKey], Mapping[AttemptKey, bool]], None]


class HostLease:
    """The lease with a token. `held` and `notify` are called by the thread."""

    def __init__(
        self,
        claims: StepClaims,
        token: str,
        lasts: timedelta,
        held: Callable[[], Collection[AttemptKey]],
        notify: Notify,
    ) -> None:
        self._claims = claims
        self._token = token
        self._lasts = lasts
        self._held = held
        self._notify = notify
        self._ended = threading.Event()

    def start(self) -> None:
        """Make the lease, and start the thread. Without a database, the thread makes the lease later."""
        self._renew()
        threading.Thread(target=self._run, name="step-lease", daemon=True).start()

    def close(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait((self._lasts / RENEWALS).total_seconds()):
            self._renew()

    def _renew(self) -> None:
        held = self._held()
        try:
            claimed = self._claims.renew(self._token, self._lasts)
        except LifecycleError as error:
            logger.warning("the lease for %d steps is not renewed: %s", len(held), error.message)
        except Exception:  # the thread must live: without renewals, further hosts would take the steps over
            logger.exception("the lease for %d steps is not renewed", len(held))
        else:
            self._notify(held, claimed)
