"""What do the manifests say, and do they fit the Kubernetes schemas? Unknown fields are errors.

The schemas are those of the package kubernetes-validate; nothing is asked of a cluster.
"""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

from crawler_lifecycle.clusters.kubernetes.http import server_checks

OLDEST = ".".join(map(str, server_checks.OLDEST))
VERSIONS = (OLDEST, "1.36")  # the oldest that is accepted, and that of the test bed
SCHEMAS = "kubernetes-json-schema/v{}.0-local-strict"
KUBERNETES = Path(__file__).parents[2] / "deploy" / "kubernetes"
KUSTOMIZATION = "kustomization.yaml"
INSTALLATIONS = ("base", "overlays/small", "overlays/large", "overlays/second")
RENDER_SECONDS = 60

Document = dict[str, Any]


@dataclass(frozen=True)
class Folder:
    """A kustomization and what is beside it."""

    path: Path

    @property
    def kustomization(self) -> Document:
        (document,) = read(self.path / KUSTOMIZATION)
        return document

    @property
    def manifests(self) -> list[Document]:
        return [document for name in self._named("resources") for document in read(self.path / name)]

    @property
    def patches(self) -> list[Document]:
        names = [patch["path"] for patch in self.kustomization.get("patches", []) if "path" in patch]
        return [document for name in names for document in read(self.path / name)]

    def _named(self, what: str) -> list[str]:
        return [name for name in self.kustomization.get(what, []) if (self.path / name).is_file()]

    @property
    def literals(self) -> dict[str, str]:
        """The settings that it gives to our processes."""
        maps = self.kustomization.get("configMapGenerator", [])
        pairs = (literal.partition("=") for each in maps for literal in each.get("literals", []))
        return {name: value for name, _, value in pairs}


def folders() -> list[Folder]:
    return [Folder(path.parent) for path in sorted(KUBERNETES.rglob(KUSTOMIZATION))]


def read(path: Path) -> list[Document]:
    return parse(path.read_text())


def parse(text: str) -> list[Document]:
    return [document for document in yaml.safe_load_all(text) if document]


def rendered(kubectl: str, installation: str) -> list[Document]:
    done = subprocess.run(
        [kubectl, "kustomize", str(KUBERNETES / installation)],
        capture_output=True,
        text=True,
        timeout=RENDER_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return parse(done.stdout)


def problems(document: Document, *, is_patch: bool = False) -> list[str]:
    """Return what does not fit the schema of a version. A patch may leave out what it leaves alone."""
    return [
        f"{name_of(document)} ({version}): {'.'.join(map(str, error.path))}: {error.message}"
        for version in VERSIONS
        for error in _errors(document, version)
        if not (is_patch and error.validator == "required")
    ]


def _errors(document: Document, version: str) -> Iterator[jsonschema.ValidationError]:
    schema = _schema(document["kind"], document["apiVersion"], version)
    yield from jsonschema.Draft202012Validator(schema, registry=_registry(version)).iter_errors(document)


def _schema(kind: str, api_version: str, of: str) -> Any:
    group, _, version = api_version.rpartition("/")
    parts = [kind.lower(), group.partition(".")[0], version]
    return schema_contents(f"{SCHEMAS.format(of)}/{'-'.join(filter(None, parts))}.json", of)


@cache
def _registry(version: str) -> Registry[Any]:
    definitions = schema_contents(f"{SCHEMAS.format(version)}/_definitions.json", version)
    found: Registry[Any] = Resource.from_contents(definitions) @ Registry()
    return found


def name_of(document: Document) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def pods(documents: list[Document]) -> Iterator[tuple[str, Document]]:
    """Every pod that would be made, by the name of what makes it."""
    for document in documents:
        spec = document.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            yield name_of(document), template["spec"]
