"""Inventory of living and waiting jobs for the audit: jobs with a place, and jobs with processes.

Records of ended jobs stay for ever and are not read.
"""

from datetime import datetime
from pathlib import Path

from crawler_lifecycle.adapters.local import processes
from crawler_lifecycle.adapters.local.layout import JOB_NAME, Layout, names
from crawler_lifecycle.adapters.local.looking import moment
from crawler_lifecycle.adapters.local.records import JobFolder, Unreadable
from crawler_lifecycle.domain.audit.subjects import ListedJob


def living(layout: Layout, installation: str | None) -> list[ListedJob]:
    """Return the jobs whose record names the installation; None accepts every installation."""
    if layout.is_away:
        raise FileNotFoundError(layout.missing)
    placed = {place.partition("-")[2] for folder in (layout.waiting, layout.running) for place in _places(folder)}
    marked = {seen.name for seen in processes.survey() if seen.name}
    jobs = (_listed(layout, name, installation) for name in sorted(placed | marked))
    return [job for job in jobs if job]


def _places(folder: Path) -> list[str]:
    try:
        return names(folder)
    except FileNotFoundError:
        return []  # no job was ever deployed


def _listed(layout: Layout, name: str, installation: str | None) -> ListedJob | None:
    """Return the job; None for a job from another cluster or installation, and for a job in creation."""
    parts = JOB_NAME.fullmatch(name)
    if parts is None:
        return None
    job = JobFolder(layout.job(name))
    owner = job.installation
    if owner is None or installation not in (None, owner):
        return None
    return ListedJob(name, job.path.parent.name, (int(parts[2]), int(parts[3])), _made_at(job))


def _made_at(job: JobFolder) -> datetime | None:
    try:
        spec = job.spec()
    except Unreadable:
        return None
    return moment(spec.claimed_at) if spec else None
