"""What an application on a cluster is started with: read, checked, refused by name."""

from typing import Any

import pytest

from gesso.cli.app import run
from gesso.cli.deploy import adapters_of, named_models
from gesso.cluster.settings import ClusterSettings
from gesso.errors import OptionError


def test_what_a_configuration_file_says_is_read() -> None:
    given = {"models": {"a": "mini", "b": "/models/b"}, "adapters": {"b": {"x": "/x"}}, "max_replicas": 3, "slack": 0}
    read = ClusterSettings.read(given)
    assert (read.max_replicas, read.min_replicas, read.slack) == (3, 1, 0)
    assert read.served_names == ("a", "b", "b:x")
    assert ClusterSettings.read({}) == ClusterSettings()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"replicas": 2}, "unknown option 'replicas': did you mean m.._replicas"),
        ({"min_replicas": "2"}, "min_replicas must be an integer of at least 1, got '2'"),
        ({"min_replicas": True}, "min_replicas must be an integer"),
        ({"offline": 1}, "offline must be true or false, got 1"),
        ({"models": ["mini"]}, "models must be a mapping by name"),
        ({"adapters": ["x"]}, "adapters must be a mapping by name"),
        ({"device": 1}, "device must be a string"),
        ({"rate_limit": "a"}, "rate_limit must be a number above 0"),
        ({"models": {}}, "models must name one or more"),
        ({"models": {"a": ""}}, "models must name one or more"),
        ({"adapters": {"b": {}}}, "there is no model 'b'; known: mini"),
        ({"adapters": {"mini": "x"}}, "must be folders by name"),
        ({"adapters": {"mini": {"a b": "x"}}}, "'a b' is no name"),
        ({"min_replicas": 0}, "min_replicas must be an integer of at least 1"),
        ({"min_replicas": 3, "max_replicas": 2}, "max_replicas must be at least min_replicas, got 2 and 3"),
        ({"drain_seconds": -1}, "drain_seconds must be a number of at least 0"),
        ({"num_cpus": float("nan")}, "num_cpus must be a finite number"),
        ({"target_requests": 0}, "target_requests must be above 0"),
        ({"models_per_replica": 0}, "models_per_replica must be an integer of at least 1"),
        ({"rate_limit": 0}, "rate_limit must be above 0"),
        ({"retries": -1}, "retries must be an integer of at least 0"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ClusterSettings.read(given)


def test_a_request_names_its_model() -> None:
    settings = ClusterSettings(models={"a": "x", "b": "y", "b:c": "z"}, adapters={"a": {"d": "e"}})
    asked = ["a", "a:d", "b", "b:c", "c", None, 3]
    assert [settings.model_of(each) for each in asked] == ["a", "a", "b", "b:c", "a", "a", "a"]


def test_of_names_that_fit_the_longest_is_meant() -> None:
    settings = ClusterSettings(models={"gemma": "x", "gemma:27b": "y"}, adapters={"gemma:27b": {"tone": "z"}})
    asked = ["gemma", "gemma:27b", "gemma:27b:tone", "gemma:tone", "gemma:27"]
    assert [settings.model_of(each) for each in asked] == ["gemma", "gemma:27b", "gemma:27b", "gemma", "gemma"]


def test_models_and_adapters_of_the_command_line() -> None:
    models = named_models(["mini", "large=/models/large"])
    assert models == {"mini": "mini", "large": "/models/large"}
    assert adapters_of(["large:x=/x", "mini:x=/y"], models) == {"large": {"x": "/x"}, "mini": {"x": "/y"}}
    assert adapters_of(["x=/x"], {"mini": "mini"}) == {"mini": {"x": "/x"}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "gesso deploy needs --ray"),
        (["--ray", "-m", "mini", "-m", "mini"], "--model: mini is given twice"),
        (["--ray", "-m", "a", "-m", "b", "--adapter", "x=/x"], "say of which model"),
        (["--ray", "--adapter", "x"], "takes [MODEL:]NAME=DIR"),
        (["--ray", "--adapter", "x=/x", "--adapter", "mini:x=/y"], "is given twice"),
        (["--ray", "--adapter", "b:x=/x"], "there is no model 'b'"),
        (["--ray", "--max-replicas", "0"], "max_replicas must be at least min_replicas"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["deploy", "--port", "0", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1
