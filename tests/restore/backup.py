"""A backup and its restore, as docs/howto/backup-and-restore.md says: database, Temporal and volume."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.ground import ACCOUNT, Ground
from tests.kit.data.databases import copy_file

DUMP = ("mariadb-dump", "--single-transaction", "--databases", ACCOUNT)
NOT_IN_THE_BACKUP = ("cluster", "temporal.db*", "crawler.db*", "ballast", "lock", "stack.json")  # cluster: the truth


@dataclass(frozen=True)
class Backup:
    ground: Ground
    folder: Path

    def make(self) -> None:
        """While everything is running."""
        self.folder.mkdir()
        with self._dump.open("wb") as output:
            subprocess.run([*DUMP, *self._server()], stdout=output, check=True, timeout=60)
        copy_file(self.ground.state / "temporal.db", self._temporal)
        shutil.copytree(self.ground.state, self._volume, ignore=shutil.ignore_patterns(*NOT_IN_THE_BACKUP))

    def restore_database(self) -> None:
        with self._dump.open("rb") as dump:
            subprocess.run(["mariadb", *self._server()], stdin=dump, check=True, timeout=60)

    def restore_temporal(self) -> None:
        for rest in self.ground.state.glob("temporal.db-*"):
            rest.unlink()
        shutil.copyfile(self._temporal, self.ground.state / "temporal.db")

    def restore_volume(self) -> None:
        for path in self._volume.iterdir():
            place = self.ground.state / path.name
            if path.is_dir():
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(path, place)
            else:
                shutil.copyfile(path, place)

    @property
    def _dump(self) -> Path:
        return self.folder / "database.sql"

    @property
    def _temporal(self) -> Path:
        return self.folder / "temporal.db"

    @property
    def _volume(self) -> Path:
        return self.folder / "volume"

    def _server(self) -> list[str]:
        assert self.ground.database
        return ["--protocol=tcp", "--host=127.0.0.1", f"--port={self.ground.database.port}", "--user=root"]
