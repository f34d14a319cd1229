"""What a release needs: one version everywhere, and files that other programs can read."""

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_one_version() -> None:
    (version,) = re.findall(r'^version = "(.+)"$', read("pyproject.toml"), re.MULTILINE)
    heading = re.search(r"^## (\S+) - (.+)$", read("CHANGELOG.md"), re.MULTILINE)
    assert heading is not None
    assert heading[1] == version == yaml.safe_load(read("CITATION.cff"))["version"]
    assert re.fullmatch(r"Unreleased|\d{4}-\d\d-\d\d", heading[2])


def test_the_extra_all_does_not_install_packages_that_have_ended() -> None:
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    installed = {name for name in extras if name in re.split(r"\W", extras["all"][0])}
    assert installed == extras.keys() - {"all", "community"}
    needed = str([extras[name] for name in installed])
    assert not re.search("langchain-(community|classic|experimental)", needed)


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_only_the_job_that_publishes_can_show_who_it_is() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "release"]
    workflow = yaml.safe_load(read(".github/workflows/release.yml"))
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    trusted = [name for name, job in workflow["jobs"].items() if "id-token" in str(job)]
    assert trusted == ["publish"]
    assert workflow["jobs"]["publish"]["needs"] == "test"
    assert "secrets." not in read(".github/workflows/release.yml")
