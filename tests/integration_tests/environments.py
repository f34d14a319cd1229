"""Virtual environments of their own, for what does not go with the packages of the tests."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Environment:
    """A virtual environment in a folder, with this package and some others.

    Args:
        folder: Where to make it.
        packages: What pip installs beside this package.
    """

    def __init__(self, folder: Path, *packages: str) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=True)
        installed = self.run("-m", "pip", "install", "--quiet", str(ROOT), *packages)
        assert installed.returncode == 0, installed.stderr

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run its Python with these arguments, away from the source tree."""
        python = self.folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        return subprocess.run(
            [python, *arguments], cwd=self.folder, capture_output=True, text=True, check=False
        )
