"""Inventory of living and waiting jobs for the audit: jobs with a place, and jobs with processes.

A job's place is its empty file in the folder of waiting jobs, or of started jobs. A job may have processes without a
place, and a place without processes. Records of ended jobs stay permanently and are not read.
"""

from datetime import datetime
from pathlib import Path

from crawler_lifecycle.adapters.local import processes
from crawler_lifecycle.adapters.local.layout import JOB_NAME, Layout, job_name_of, names
from crawler_lifecycle.adapters.local.records import JobFolder, Unreadable, utc_time
from crawler_lifecycle.domain.audit.subjects import ListedJob


def living(layout: Layout, installation: str | None) -> list[ListedJob]:
    """Return the jobs whose record names the installation; with None, return the jobs of all installations.

    Raise FileNotFoundError while the folder is not mounted: an empty inventory would look like an empty cluster.
    """
    if layout.is_away:
        raise FileNotFoundError(layout.missing)
    places = [*_places(layout.waiting), *_places(layout.running)]
    names_with_place = {job_name_of(place) for place in places}
    names_with_process = {process.job_name for process in processes.survey() if process.job_name}
    jobs = (_listed(layout, name, installation) for name in sorted(names_with_place | names_with_process))
    return [job for job in jobs if job]


def _places(folder: Path) -> list[str]:
    try:
        return names(folder)
    except FileNotFoundError:
        return []  # no job was ever deployed


def _listed(layout: Layout, name: str, installation: str | None) -> ListedJob | None:
    """Return the job; None for another installation's job, and for a job without a record in our folder.

    A job without a record belongs to another local cluster on this machine, or is still in creation.
    """
    match = JOB_NAME.fullmatch(name)
    if match is None:
        return None
    job = JobFolder(layout.job(name))
    recorded_installation = job.installation
    if recorded_installation is None or installation not in (None, recorded_installation):
        return None
    key = (int(match[2]), int(match[3]))  # task and attempt
    return ListedJob(name, run_uid=job.path.parent.name, key=key, made_at=_made_at(job))


def _made_at(job: JobFolder) -> datetime | None:
    try:
        spec = job.spec()
    except Unreadable:
        return None
    return utc_time(spec.claimed_at) if spec else None
