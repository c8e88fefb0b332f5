"""A sampler, a schedule or a stopping rule with options of its own is one file: written into a folder here, it is on
the command line, in HTTP bodies, in Python, in a checkpoint's files and in the generated pages, bounds and all."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gesso

SAMPLER = '''
from dataclasses import dataclass

from gesso.diffusion.samplers import SAMPLERS, Sampler, start_canvas, draw_noise
from gesso.options import option


@SAMPLERS.register("quota")
@dataclass(frozen=True)
class QuotaSampler(Sampler):
    """Accepts the `quota` surest positions, and all at the last step where `finish` says so."""

    quota: int = option(4, "Positions that a step accepts.", minimum=1, maximum=64, unit="positions")
    finish: bool = option(False, "Accept every position at the last step.")

    def start(self, canvas, rng):
        return start_canvas(canvas, rng), None

    def step(self, info, canvas_C, prediction, state, rng):
        rank_C = prediction.entropy_C.argsort(stable=True).argsort()
        accepted_C = rank_C < (info.width if self.finish and not info.steps_left else self.quota)
        return prediction.sample_C.where(accepted_C, draw_noise(info.canvas, rng)), accepted_C, None
'''
SCHEDULE = """
from dataclasses import dataclass

from gesso.diffusion.schedules import SCHEDULES, Schedule
from gesso.options import option


@SCHEDULES.register("constant")
@dataclass(frozen=True)
class ConstantSchedule(Schedule):
    heat: float = option(0.6, "Temperature of every step.", above=0, maximum=2)

    def temperature(self, step, steps):
        return self.heat
"""
STOPPING = """
from dataclasses import dataclass

from gesso.diffusion.stopping import STOPPING_RULES, StoppingRule
from gesso.options import option


@STOPPING_RULES.register("after")
@dataclass(frozen=True)
class After(StoppingRule):
    enough_steps: int = option(3, "Steps after which a canvas is done.", minimum=1, unit="steps")

    def start(self, canvas):
        return 0

    def should_stop(self, info, prediction, state):
        return state + 1 >= self.enough_steps, state + 1
"""
PROBE = r"""
import contextlib, io, json, sys
from gesso.diffusion import samplers, schedules, stopping

for package in (samplers, schedules, stopping):
    package.__path__.append(sys.argv[1] + "/" + package.__name__.rpartition(".")[2])
from gesso.cli.app import run


def command(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    return [code, out.getvalue(), err.getvalue()]


def refused(work):
    try:
        work()
    except Exception as error:
        return [type(error).__name__, str(error), error.option]


told = {"help": {name: command(name, "--help")[1] for name in ("generate", "chat", "eval", "fill")}}
told["torch"] = "torch" in sys.modules

import gesso
from gesso.cli.reference import api_reference, reference
from gesso.cli.serve import _sampler_overrides
from gesso.models.hf_generation_config import (
    read_generation_config, read_own_defaults, write_generation_config, write_own_defaults,
)

told["pages"] = [reference(), api_reference()]
told["overrides"] = _sampler_overrides('{"diffusion_sampler": "quota", "diffusion_quota": 3}')
told["generate"] = command("generate", "--json", "--seed", 7, "--sampler", "quota", "--quota", 8, "What is 481 + 296?")
told["command refused"] = [
    command("generate", "--sampler", "quota", "--quota", 65, "What is 9 + 4?"),
    command("generate", "--quota", 3, "What is 9 + 4?"),
    command("generate", "--sampler", "quota", "--entropy-bound", 3, "What is 9 + 4?"),
]

engine = gesso.load("mini")
options = {"sampler": "quota", "quota": 2, "finish": True, "schedule": "constant", "stopping": "after", "seed": 1}
told["keywords"] = list(engine.generate("hi", enough_steps=5, max_new_tokens=32, **options).denoising_steps)
told["keyword refused"] = [
    refused(lambda: engine.generate("hi", sampler="quota", quota=0)),
    refused(lambda: engine.generate("hi", quota=3)),
    refused(lambda: engine.generate("hi", schedule="constant", heat=0)),
    refused(lambda: engine.generate("hi", stopping="after", stability_threshold=1)),
]

given = gesso.GenerationConfig(**options, heat=0.25, enough_steps=9).override(seed=None)
written = json.loads(json.dumps([write_generation_config(given, engine.config), write_own_defaults(given)]))
back = read_own_defaults(written[1], read_generation_config(written[0], engine.config))
told["files"] = [*written, [back.quota, back.finish, back.heat, back.enough_steps]]
told["file refused"] = [
    refused(lambda: read_generation_config(
        {"sampler_config": {"_cls_name": "QuotaSamplerConfig", "quota": 0}}, engine.config)),
    refused(lambda: read_generation_config({"sampler_config": {"quota": 5}}, engine.config)),
]

from starlette.testclient import TestClient
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.server.app import create_app
from gesso.server.settings import Settings

service = AsyncEngine(engine, Limits())
service.start()
client = TestClient(create_app(service, Settings(served_model_name="mini")))


def post(**diffusion):
    body = {"model": "mini", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8, "diffusion": diffusion}
    answer = client.post("/v1/chat/completions", json=body)
    return [answer.status_code, answer.json()]


told["http"] = [
    post(stopping="after", enough_steps=2),
    post(sampler="quota", quota=65),
    post(quota=5),
    post(sampler="quotum"),
]
told["schema"] = client.get("/openapi.json").json()["components"]["schemas"]["Diffusion"]["properties"]["quota"]
service.close(0)
print(json.dumps(told))
"""


ABSENT = """gesso: --quota is no option of the sampler entropy_bound; it belongs to sampler quota
  choose another sampler, or leave quota out
"""
STABILITY = (
    "stability_threshold is no option of the stopping rule after; "
    "it belongs to stopping rule stable_and_confident, answer_region, deadline"
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process says that found three files more."""
    folder = tmp_path_factory.mktemp("more")
    for package, name, text in (
        ("samplers", "quota", SAMPLER), ("schedules", "constant", SCHEDULE), ("stopping", "after", STOPPING)
    ):  # fmt: skip
        (folder / package).mkdir()
        (folder / package / f"{name}.py").write_text(text, "utf-8")
    source = Path(gesso.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROBE, str(folder)],
        env={**os.environ, "PYTHONPATH": str(source), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("command", ["generate", "chat", "eval", "fill"])
def test_the_help_shows_it_with_unit_bounds_and_owner(told: dict[str, Any], command: str) -> None:
    page = " ".join(told["help"][command].split())
    assert "Positions that a step accepts. (sampler quota) [positions; at least 1 and at most 64]" in page
    assert "--sampler NAME" in page
    for flag in ("--quota N", "--finish", "--heat X", "--enough-steps N"):
        assert flag in page
    assert not told["torch"], "help is shown without torch"


def test_the_pages_show_it(told: dict[str, Any]) -> None:
    command_line, python = told["pages"]
    assert "--quota N" in command_line
    row = next(line for line in python.splitlines() if line.startswith("| `quota`"))
    for fact in ("integer, at least 1 and at most 64, positions", "| 4 |", "`diffusion.quota`", "sampler quota"):
        assert fact in row


def test_the_command_line_takes_it(told: dict[str, Any]) -> None:
    code, out, _ = told["generate"]
    assert code == 0
    assert json.loads(out)["text"]
    assert told["overrides"] == {"sampler": "quota", "quota": 3}
    beyond, absent, other = told["command refused"]
    assert beyond == [2, "", "gesso: --quota must be at most 64, got 65\n"]
    assert (absent[0], absent[2]) == (2, ABSENT)
    assert "--entropy-bound is no option of the sampler quota; it belongs to sampler entropy_bound" in other[2]


def test_python_takes_it_as_a_keyword(told: dict[str, Any]) -> None:
    assert told["keywords"][0] == 5
    assert told["keyword refused"] == [
        ["OptionError", "quota must be an integer of at least 1, got 0", "quota"],
        ["OptionError", "quota is no option of the sampler entropy_bound; it belongs to sampler quota", "quota"],
        ["OptionError", "heat must be above 0 and at most 2, got 0", "heat"],
        ["OptionError", STABILITY, "stability_threshold"],
    ]


def test_a_checkpoints_files_hold_it(told: dict[str, Any]) -> None:
    published, own, back = told["files"]
    assert published["sampler_config"] == {"_cls_name": "QuotaSamplerConfig", "quota": 2, "finish": True}
    assert not {"heat", "enough_steps", "t_min", "stability_threshold"} & published.keys()
    assert own == {"schedule": "constant", "heat": 0.25, "stopping": "after", "enough_steps": 9}
    assert back == [2, True, 0.25, 9]
    assert told["file refused"][0] == ["OptionError", "quota must be an integer of at least 1, got 0", "quota"]
    assert told["file refused"][1][:2] == [
        "ConfigError", "generation_config.json: sampler_config: unknown key 'quota'"
    ]  # fmt: skip


def test_http_takes_it(told: dict[str, Any]) -> None:
    taken, beyond, absent, unknown = told["http"]
    assert taken[0] == 200
    assert taken[1]["choices"][0]["diffusion"]["denoising_steps"] == [2]
    for status, body in (beyond, absent):
        assert (status, body["error"]["param"]) == (400, "diffusion.quota")
    assert "less than or equal to 64" in beyond[1]["error"]["message"]
    assert "belongs to sampler quota" in absent[1]["error"]["message"]
    assert (unknown[0], unknown[1]["error"]["param"]) == (400, "diffusion.sampler")
    bounds = told["schema"]["anyOf"][0]
    assert (bounds["minimum"], bounds["maximum"]) == (1, 64)
    assert "Positions that a step accepts. Unit: positions." in json.dumps(told["schema"])
