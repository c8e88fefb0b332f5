"""The parts that doctor knows are those of the project."""

import tomllib
from pathlib import Path

from gesso.cli import doctor_parts

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]


def packages(requirements: list[str]) -> set[str]:
    return {requirement.partition(">")[0].strip() for requirement in requirements}


def test_the_parts_are_those_of_the_project() -> None:
    assert set(doctor_parts.NEEDED) == packages(PROJECT["dependencies"])
    extras = PROJECT["optional-dependencies"]
    assert set(doctor_parts.EXTRAS) == set(extras) - {"all", "test", "dev"}, "development alone needs the others"
    for extra in doctor_parts.EXTRAS:
        own = [requirement for requirement in extras[extra] if not requirement.startswith("gesso[")]
        assert set(doctor_parts.PARTS[extra][1].values()) == packages(own)
    (everything,) = extras["all"]
    in_all = everything.removeprefix("gesso[").removesuffix("]").split(",")
    assert set(in_all) == set(doctor_parts.PARTS) - set(doctor_parts.OUTSIDE_ALL)
