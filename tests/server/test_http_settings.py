"""What a server and a router have in common: their settings, and the layers around them."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from gesso.errors import OptionError
from gesso.router.settings import RouterSettings
from gesso.server.http_settings import HttpSettings, outer_layers
from gesso.server.settings import Settings


class Counts:
    """Counts requests."""

    http = Counter("requests", "Requests.", ["route", "status"], registry=CollectorRegistry())


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["AccessLog"]),
        ({"api_keys": ("k",)}, ["AccessLog", "ApiKeys"]),
        (
            {"api_keys": ("k",), "cors_origins": ("*",), "allowed_hosts": ("a.example",)},
            ["AccessLog", "AllowedHosts", "CORSMiddleware", "ApiKeys"],
        ),
    ],
)
def test_layers_are_those_that_settings_ask_for_the_log_outermost(settings: dict[str, Any], names: list[str]) -> None:
    layers = outer_layers(HttpSettings(**settings), Counts(), None)
    assert [layer.cls.__name__ for layer in layers] == names


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"api_keys": ("a b",)}, "an API key must be printable ASCII"),
        ({"allowed_hosts": ("a.example:80",)}, "an allowed host must be a name"),
        ({"drain_seconds": -1}, "drain_seconds must be a number of at least 0, got -1"),
        ({"drain_seconds": float("nan")}, "drain_seconds must be a finite number, got nan"),
        ({"drain_seconds": "10"}, "drain_seconds must be a number of at least 0, got '10'"),
        ({"max_body_bytes": 0}, "max_body_bytes must be an integer of at least 1, got 0"),
    ],
)
def test_what_is_impossible_is_refused_by_both(settings: dict[str, Any], message: str) -> None:
    for make in (lambda: Settings("mini", **settings), lambda: RouterSettings(**settings)):
        with pytest.raises(OptionError, match=message):
            make()
