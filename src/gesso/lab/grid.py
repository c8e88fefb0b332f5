"""Declares what a laboratory run compares: settings times tasks times models.

A grid is a JSON file such as

    {"models": ["mini"], "tasks": ["arithmetic", "ordering"],
     "settings": [{}, {"sampler": "maskgit"}],
     "product": {"sampler": ["discrete_ddim", "remdm"], "max_denoising_steps": [8, 16]}}

whose settings are those that are listed, and then every combination of `product`. Keys of a setting are options of a
request, and of a search: `best_of`, `check`, `select`, `at_once`, `particles`, `resample_every`, `reward_scale`.
"""

import hashlib
import itertools
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gesso.control.grading import grader_file
from gesso.control.search_options import SEARCH_OPTIONS, SearchOptions
from gesso.errors import ConfigError, OptionError
from gesso.generation import STRATEGIES, engine_options
from gesso.json_files import unique_members
from gesso.tasks.registry import default_tasks, find_task

KEYS = ("models", "tasks", "settings", "product")


@dataclass(frozen=True, slots=True)
class Setting:
    """Holds one setting: the options of its requests, and of a search."""

    options: Mapping[str, Any]
    """Options as they were given."""

    @property
    def key(self) -> str:
        """Returns the setting in the one form that names it: what is the user's own with a digest of its file."""
        options, check = dict(self.options), self.search.check
        if check is not None and (file := grader_file(check)) is not None:
            options["check"] = f"{check} {_digest(file)}"
        for role, registry in STRATEGIES.items():
            if role in options:
                options[role] = named_with_source(str(options[role]), registry.get(options[role]))
        return json.dumps(options, sort_keys=True)

    @property
    def request(self) -> dict[str, Any]:
        """Returns the options of a request."""
        return {name: value for name, value in self.options.items() if name not in SEARCH_OPTIONS}

    @property
    def search(self) -> SearchOptions:
        """Returns how answers are searched for."""
        return SearchOptions(**{name: value for name, value in self.options.items() if name in SEARCH_OPTIONS})

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.options.items()) or "as the model has it"


@dataclass(frozen=True, slots=True)
class Grid:
    """Holds what is compared; the first setting is what the others are compared with.

    Raises:
        OptionError: an unknown option or task, the same setting, task or model twice, or nothing to compare.
    """

    models: tuple[str, ...] = ("mini",)
    tasks: tuple[str, ...] = ()
    """Empty takes each model's own."""
    settings: tuple[Setting, ...] = field(default_factory=lambda: (Setting({}),))

    def __post_init__(self) -> None:
        for task in self.tasks:
            find_task(task)
        if not self.models or not self.settings:
            raise OptionError("a grid needs a model and a setting", option="grid")
        for kind, names in (("model", self.models), ("task", self.tasks)):
            if repeated := [name for name in names if names.count(name) > 1]:
                raise OptionError(f"the same {kind} stands twice: {repeated[0]}", option=kind)
        known = {*engine_options(), *SEARCH_OPTIONS} - {"seed"}
        for setting in self.settings:
            for name in setting.options:
                if name == "seed":
                    raise OptionError("all settings share one seed: give --seed", option="seed")
                if name not in known:
                    raise OptionError(f"a setting has no {name!r}; known: {', '.join(sorted(known))}", option=name)
            setting.search  # noqa: B018 - it checks itself
        keys = [setting.key for setting in self.settings]
        if twice := [setting for setting, key in zip(self.settings, keys, strict=True) if keys.count(key) > 1]:
            raise OptionError(f"the same setting stands twice: {twice[0]}", option="settings")

    def tasks_of(self, model: str) -> tuple[str, ...]:
        """Returns the names of the tasks that a model is measured on."""
        return self.tasks or default_tasks(model)


def named_with_source(name: str, kind: type) -> str:
    """Returns a name; where what it means is the user's own, with a digest of the file that defines it."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is None or kind.__module__.startswith("gesso."):
        return name
    return f"{name} {_digest(Path(file))}"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def read_grid(path: Path) -> Grid:
    """Reads a grid from a file.

    Raises:
        ConfigError: the file cannot be read, is no grid, or has an unknown key.
        OptionError: as for `Grid`.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=unique_members)
    except OSError as error:
        raise ConfigError(f"no grid {path}: {error.strerror}; a grid is a JSON file, a model is --model NAME") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ConfigError(f"{path} holds no JSON object")
    for name in fields:
        if name not in KEYS:
            raise ConfigError(f"{path}: unknown key {name!r}; known: {', '.join(KEYS)}")
    listed, product = fields.get("settings", []), fields.get("product", {})
    texts = [fields.get(name, []) for name in ("models", "tasks")]
    if any(not isinstance(part, list) or not all(isinstance(name, str) for name in part) for part in texts):
        raise ConfigError(f"{path}: models and tasks are lists of names")
    if not isinstance(listed, list) or not all(isinstance(options, dict) for options in listed):
        raise ConfigError(f"{path}: settings is a list of objects of options")
    if not isinstance(product, dict) or not all(isinstance(values, list) and values for values in product.values()):
        raise ConfigError(f"{path}: product is an object of lists, none of them empty")
    combined = itertools.product(*product.values()) if product else ()
    settings = [*listed, *(dict(zip(product, values, strict=True)) for values in combined)]
    return Grid(tuple(texts[0]) or ("mini",), tuple(texts[1]), tuple(Setting(options) for options in settings or [{}]))
