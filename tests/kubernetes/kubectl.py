"""kubectl of the bed, as whoever installs: with every right."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.deploy.manifests import KUBERNETES
from tests.kubernetes import programs
from tests.kubernetes.bed import Bed

SECONDS = 150


class Kubectl:
    def __init__(self, bed: Bed) -> None:
        self.program = str(programs.built() / "kubectl")
        self.config = bed.plane.kubeconfig("admin", bed.plane.tokens["admin"])

    def __call__(self, *words: str, folder: Path | None = None) -> str:
        done = subprocess.run(
            [self.program, *words],
            env={**os.environ, "KUBECONFIG": str(self.config)},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json"))

    def apply(self, installation: str, *more: str) -> str:
        return self("apply", "--server-side", "--force-conflicts", "-k", str(KUBERNETES / installation), *more)

    def provide_volume(self, namespace: str, mode: str) -> None:
        """For the claim `state`: nobody makes volumes in the bed."""
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"state-{namespace}"},
            "spec": {
                "capacity": {"storage": "20Gi"},
                "accessModes": [mode],
                "hostPath": {"path": "/nowhere"},
                "claimRef": {"namespace": namespace, "name": "state"},
            },
        }
        path = self.config.with_name(f"volume-{namespace}.json")
        path.write_text(json.dumps(volume))
        self("apply", "-f", str(path))
