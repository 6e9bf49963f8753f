"""Rules for admission: which runs may begin, and which tasks may be deployed, under the limits of their scopes.

A run's permit is its row: a run that was admitted and is not over. So no permit can be lost or counted twice.
"""

from crawler_lifecycle.domain.admission.open_runs import OpenRun, Use, total_use
from crawler_lifecycle.domain.admission.planning import AdmissionPlan, obstacle_in_turn, plan
from crawler_lifecycle.domain.admission.rooms import Hold, Rooms, pause_in

__all__ = ["AdmissionPlan", "Hold", "OpenRun", "Rooms", "Use", "obstacle_in_turn", "pause_in", "plan", "total_use"]
