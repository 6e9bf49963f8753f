"""What does the inside need of the outside? Small protocols; `adapters/` fulfils them, `tests/contracts/` holds
every adapter to them.

Whatever fails raises TemporaryError (try again, nothing is known to have changed) or PermanentError. Every
method may be called twice. Every write to a run compares the epoch in its RunRef and raises Fenced when
another supervisor has taken over.
"""

from crawler_lifecycle.ports.auditing import Acted, AuditedRuns, ExpiredClaims, Findings, Handover
from crawler_lifecycle.ports.cluster import NO_UIDS, Cluster, Deployer, LogChunk, Uids
from crawler_lifecycle.ports.deploying import Addition, Additions, Backlog, Claim, Claims
from crawler_lifecycle.ports.outside import (
    Announcer,
    Archive,
    Archiver,
    Archives,
    Exporter,
    Progress,
    Pusher,
    StoredArchive,
    Supervisors,
)
from crawler_lifecycle.ports.places import KnowsItsPlace, Place, Places, PlacesInMemory
from crawler_lifecycle.ports.records import Changes, Exports, Made, Notices, Nudge, Nudges, Records
from crawler_lifecycle.ports.runs import Execution, Histories, NewRun, Stops, Supervision, Tasks

__all__ = [
    "NO_UIDS",
    "Acted",
    "Addition",
    "Additions",
    "Announcer",
    "Archive",
    "Archiver",
    "Archives",
    "AuditedRuns",
    "Backlog",
    "Changes",
    "Claim",
    "Claims",
    "Cluster",
    "Deployer",
    "Execution",
    "ExpiredClaims",
    "Exporter",
    "Exports",
    "Findings",
    "Handover",
    "Histories",
    "KnowsItsPlace",
    "LogChunk",
    "Made",
    "NewRun",
    "Notices",
    "Nudge",
    "Nudges",
    "Place",
    "Places",
    "PlacesInMemory",
    "Progress",
    "Pusher",
    "Records",
    "Stops",
    "StoredArchive",
    "Supervision",
    "Supervisors",
    "Tasks",
    "Uids",
]
