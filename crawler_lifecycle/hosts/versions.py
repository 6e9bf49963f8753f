"""Versions: determines the version of the authors' code, by a hash of the loaded files."""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

from crawler_lifecycle.flows.authors.modules import Modules, is_file

DIGITS = 12


def code_version(modules: Modules) -> str:
    """Return a short hash of the host's modules, and of the loaded modules in the same packages or beside its files.

    Further modules are left out, such as installed libraries.
    """
    digest = hashlib.sha256()
    for name, path in sorted(_files(modules)):
        digest.update(name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:DIGITS]


def _files(modules: Modules) -> Iterator[tuple[str, Path]]:
    """Yield names and files. A module may have no file, such as a namespace package."""
    packages = {name.partition(".")[0] for name in modules.names}
    folders = {Path(target).resolve().parent for target in modules.targets if is_file(target)}
    for name, module in list(sys.modules.items()):
        path = Path(getattr(module, "__file__", None) or "")
        if path.is_file() and (name.partition(".")[0] in packages or path.parent in folders):
            yield name, path
