"""Let tox find the Pythons that a version manager keeps outside ``PATH``.

pyenv answers ``python3.12`` only for the versions that are active in a folder; the others
are installed all the same. They go last, so that nothing that was found before changes.
"""

from __future__ import annotations

import os
from pathlib import Path


def add_pyenv_versions() -> None:
    """Append the ``bin`` folder of every Python 3 of pyenv to ``PATH``."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = sorted(str(path) for path in root.glob("versions/3.*/bin"))
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), *found])


add_pyenv_versions()
