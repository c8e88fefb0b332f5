"""What a replica tells Ray of its models, without a cluster. `make ray-test` runs these."""

import asyncio
import gc
import importlib.util
import time
from types import SimpleNamespace
from typing import Any

import pytest

if importlib.util.find_spec("ray") is None:
    pytest.skip("make ray-test runs these", allow_module_level=True)

from gesso.cluster.replica import ModelReplica
from gesso.cluster.settings import ClusterSettings

pytestmark = pytest.mark.filterwarnings("default")  # what Ray warns of is Ray's affair


class Loaded:
    """A model that is loaded, whose engine fails or hangs when it is told to."""

    def __init__(self, name: str, *_: Any) -> None:
        self.name = name
        self.service = SimpleNamespace(failure=None, hung=False)

    def close(self) -> None:
        """Holds nothing."""


class Replica(ModelReplica):
    """A replica that is given up without Ray, which would wait for the end of what `__del__` makes."""

    def __del__(self) -> Any:
        self._open.close()


@pytest.fixture(autouse=True)
def nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gesso.cluster.replica.Loaded", Loaded)
    monkeypatch.setattr("gesso.cluster.replica.serve.multiplexed", lambda **_: lambda load: load)


@pytest.mark.parametrize("names", [("small",), ("small", "large")])
@pytest.mark.parametrize(("trouble", "message"), [({"failure": "no memory"}, "no memory"), ({"hung": True}, "hangs")])
def test_ray_is_told_of_an_engine_that_does_not_run(
    names: tuple[str, ...], trouble: dict[str, Any], message: str
) -> None:
    async def play() -> None:
        replica = Replica(ClusterSettings(models=dict.fromkeys(names, "mini")))
        await replica.check_health()
        held = [replica._only or await replica._load(name) for name in names]
        await replica.check_health()
        vars(held[-1].service).update(trouble)
        with pytest.raises(RuntimeError, match=message):
            await replica.check_health()

    asyncio.run(play())


def test_a_model_that_ray_has_let_go_counts_no_longer() -> None:
    async def play() -> None:
        replica = Replica(ClusterSettings(models={"small": "mini", "large": "mini"}))
        loaded = await replica._load("large")
        loaded.service.failure = "no memory"
        del loaded
        until = time.monotonic() + 60
        while len(replica._all) and time.monotonic() < until:  # its thread lets go of it when it comes to that
            await asyncio.sleep(0.01)
            gc.collect()
        assert not len(replica._all)
        await replica.check_health()

    asyncio.run(play())
