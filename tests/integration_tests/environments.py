"""Virtual environments for packages that conflict with those of the tests, and for none of them."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path


class Environment:
    """A virtual environment in a folder.

    Args:
        folder: Where to create it.
        packages: What pip installs into it.
        alone: True for the packages and what they require, and nothing else. Otherwise, this source
            tree and all packages of the tests can be imported that pip does not replace.
    """

    def __init__(self, folder: Path, *packages: str, alone: bool = False) -> None:
        self._folder = folder
        self._variables = dict(os.environ)  # with this source tree as PYTHONPATH
        venv.create(folder / "venv")
        if alone:
            del self._variables["PYTHONPATH"]
        else:
            place = self.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
            inherited = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
            Path(place.stdout.strip(), "inherited.pth").write_text(inherited, encoding="utf-8")
        # With the pip of the tests: creating a virtual environment with its own takes seconds.
        pip = [sys.executable, "-m", "pip", "--python", self._python]
        installed = self._call(*pip, "install", "--quiet", "--no-compile", *packages)
        assert installed.returncode == 0, installed.stderr

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run its Python with these arguments, away from the source tree."""
        return self._call(self._python, *arguments)

    @property
    def _python(self) -> str:
        scripts = "Scripts" if sys.platform == "win32" else "bin"
        return str(self._folder / "venv" / scripts / "python")

    def _call(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self._folder,
            env=self._variables,
            capture_output=True,
            text=True,
            check=False,
        )
