import zipfile
from datetime import timedelta
from pathlib import Path

import pytest

from crawler_lifecycle.model.run_plan import CloseRun, ExportedEnd
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression("The manifest in an archive was dated 1980, the first time of the zip format")

A_ZIP_STEP = timedelta(seconds=2)  # the zip format keeps times in steps of two seconds


def test_the_manifest_has_the_time_of_the_end_however_often_the_run_is_exported(rig: Rig) -> None:
    plan = rig.begin()  # without a job, which could write into the folder between the two exports
    folder = rig.folder / "files" / plan.run.run_uid
    folder.mkdir(parents=True)
    (folder / "items.jsonl").write_text("1")
    rig.tasks.cancel_queued(plan.run, "stopped")
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    contents = []
    for _ in range(2):
        exported = rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run, end=1))
        contents.append(Path(str(exported.location)).read_bytes())
    assert contents[0] == contents[1]
    with zipfile.ZipFile(str(exported.location)) as archive:
        entry = archive.getinfo("manifest.json")
    ended_at = rig.details(plan).run.finished_at
    assert ended_at
    end = ended_at.replace(microsecond=0)
    assert entry.date_time == (end - timedelta(seconds=end.second % A_ZIP_STEP.seconds)).timetuple()[:6]
