"""How many schemas of a folder are usable: every valid instance can be written, and no invalid one.

    python benchmarks/constrain_schemas.py FOLDER [--each 40] [--seed 0] [--family NAME] [--vocab 131072] [--list]

FOLDER holds JSON files: one schema each, as `{"schema": ..., "tests": [{"data": ..., "valid": true}, ...]}`, or a list
of such groups, which is how the public JSON-Schema-Test-Suite has them. The family of a file is its folder, or what
its name begins with. Instances are written as the constraints write JSON, keys in the order of the schema; one that
has another order, or is written another way, counts as well where it is taken as it stands.

Prints for each family how many schemas are usable, why the others are not, and the CPU seconds of compiling; with
`--vocab` of compiling for a vocabulary of that size, else to bytes. `--list` names the groups that are not usable. The
last line is one line of JSON.
"""

import argparse
import json
import random
import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from rich.console import Console
from rich.table import Table

from constrain import make_tokenizer
from gesso.constraints import budget
from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.compile import submit
from gesso.constraints.json_schema import schema_expression
from gesso.errors import OptionError
from gesso.text.tokenizer import Tokenizer

GOAL = 0.9
GOAL_OF_EACH = 0.6


@dataclass
class Family:
    """What was found of the schemas of one family."""

    usable: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    unwritten: int = 0
    """Schemas of which a valid instance cannot be written."""
    wrong: int = 0
    """Schemas of which an invalid instance can be."""
    groups: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.usable + self.refused.total() + self.unwritten + self.wrong


class Writer:
    """Writes values with their keys in the order of a schema."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        self.validator = kind(schema)

    def texts(self, value: Any) -> Iterator[str]:
        yield json.dumps(value, ensure_ascii=False)
        try:
            yield json.dumps(self.ordered(value, [self.schema]), ensure_ascii=False)
        except Exception:  # noqa: BLE001 - whatever a validator may think of a schema that it cannot resolve
            return

    def ordered(self, value: Any, schemas: list[Any]) -> Any:
        said: list[dict[str, Any]] = []
        for schema in schemas:
            self.gather(value, schema, said, 0)
        if isinstance(value, dict):
            order = [key for one in said for key in one.get("properties", {})]
            order += [key for one in said for key in one.get("required", []) if isinstance(one.get("required"), list)]
            keys = [key for key in dict.fromkeys([*order, *value]) if key in value]
            return {key: self.ordered(value[key], self.of_key(key, said)) for key in keys}
        if isinstance(value, list):
            return [self.ordered(part, self.of_item(place, said)) for place, part in enumerate(value)]
        return value

    def of_key(self, key: str, said: list[dict[str, Any]]) -> list[Any]:
        found = []
        for one in said:
            own = [one["properties"][key]] if key in one.get("properties", {}) else []
            own += [part for pattern, part in one.get("patternProperties", {}).items() if re.search(pattern, key)]
            found += own or [one.get("additionalProperties", True)]
        return found

    def of_item(self, place: int, said: list[dict[str, Any]]) -> list[Any]:
        found = []
        for one in said:
            prefix = one.get("prefixItems", one["items"] if isinstance(one.get("items"), list) else [])
            rest = one.get("additionalItems", True) if isinstance(one.get("items"), list) else one.get("items", True)
            found.append(prefix[place] if place < len(prefix) else rest)
        return found

    def gather(self, value: Any, schema: Any, said: list[dict[str, Any]], depth: int) -> None:
        if not isinstance(schema, dict) or depth > 30:
            return
        said.append(schema)
        if "$ref" in schema:
            self.gather(value, self.validator._resolver.lookup(schema["$ref"]).contents, said, depth + 1)
        for part in schema.get("allOf", []):
            self.gather(value, part, said, depth + 1)
        for name, part in {**schema.get("dependentSchemas", {}), **schema.get("dependencies", {})}.items():
            if isinstance(value, dict) and name in value:
                self.gather(value, part, said, depth + 1)
        if "if" in schema:
            holds = self.validator.evolve(schema=schema["if"]).is_valid(value)
            for part in [schema["if"], schema.get("then")] if holds else [schema.get("else")]:
                self.gather(value, part, said, depth + 1)
        for part in [*schema.get("anyOf", []), *schema.get("oneOf", [])]:
            if self.validator.evolve(schema=part).is_valid(value):
                self.gather(value, part, said, depth + 1)


def groups(folder: Path, each: int | None, seed: int, families: list[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Family, name and content of the groups of a folder."""
    files = defaultdict(list)
    for path in sorted(folder.rglob("*.json")):
        name = re.match(r"[A-Za-z]+(?:_[a-z]+)?", path.stem) if path.parent == folder and "---" in path.stem else None
        name = re.match(r"[A-Za-z]+", path.stem) if name is None and path.parent == folder else name
        family = str(path.parent.relative_to(folder)) if path.parent != folder else name[0] if name else path.stem
        if not families or family in families:
            files[family].append(path)
    for family, paths in files.items():
        chosen = paths if each is None or each >= len(paths) else random.Random(seed).sample(paths, each)
        for path in chosen:
            content = json.loads(path.read_text("utf-8"))
            for group in content if isinstance(content, list) else [content]:
                yield family, f"{path.stem}: {group.get('description', '')}", group


def reason(message: str) -> str:
    """A refusal without its place."""
    keyword = re.match(r"#[^:]*?/([A-Za-z$]+)(?:/[^/:]*)?: (.*)", message)
    return re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "_", message if keyword is None else f"{keyword[1]}: {keyword[2]}")[:110]


def judge(family: Family, name: str, group: dict[str, Any], automaton: ByteAutomaton) -> None:
    writer = Writer(group["schema"])
    unwritten, wrong = [], []
    for test in group["tests"]:
        taken = any(automaton.matches(text) for text in writer.texts(test["data"]))
        if test["valid"] and not taken:
            unwritten.append(test)
        if taken and not test["valid"]:
            wrong.append(test)
    family.wrong += bool(wrong)
    family.unwritten += bool(unwritten) and not wrong
    family.usable += not unwritten and not wrong
    for kind, tests in (("TAKEN THOUGH INVALID", wrong), ("not written", unwritten)):
        family.groups += [f"{kind}: {name}: {json.dumps(tests[0]['data'], ensure_ascii=False)[:200]}"] if tests else []


def timed(schema: Any, tokenizer: Tokenizer | None) -> tuple[ByteAutomaton, float]:
    """The automaton over bytes, and the CPU seconds of compiling: to bytes, or for a vocabulary."""
    started = time.process_time()
    with budget.python_bounds(), budget.within(budget.Budget()):
        expression = schema_expression(schema)[0]
        read = time.process_time() - started
        automaton = compile_bytes(expression)
    if tokenizer is None:
        return automaton, time.process_time() - started
    started = time.process_time()
    submit(expression, tokenizer, (2,)).result()
    return automaton, read + time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--each", type=int, help="files of a family; all without it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", action="append", default=[])
    parser.add_argument("--vocab", type=int, help="compile for so many tokens")
    parser.add_argument("--draft", help="the address of the draft of schemas that name none")
    parser.add_argument("--refusals", type=int, default=20, help="reasons that are shown")
    parser.add_argument("--list", action="store_true", help="name what is not usable")
    arguments = parser.parse_args()
    tokenizer = None if arguments.vocab is None else make_tokenizer(arguments.vocab)
    if tokenizer is not None:
        submit("a vocabulary is read once", tokenizer, (2,)).result()
    found: dict[str, Family] = defaultdict(Family)
    seconds: dict[str, float] = {}
    for name, label, group in groups(arguments.folder, arguments.each, arguments.seed, arguments.family):
        if arguments.draft is not None and isinstance(group["schema"], dict):
            group["schema"] = {"$schema": arguments.draft, **group["schema"]}
        family = found[name]
        started = time.process_time()
        try:
            automaton, seconds[f"{name} {label}"] = timed(group["schema"], tokenizer)
        except OptionError as error:
            seconds[f"{name} {label}"] = time.process_time() - started
            family.refused[reason(str(error))] += 1
            family.groups.append(f"refused: {label}: {error}")
            if arguments.list:
                print(f"{name}: {family.groups[-1]}", flush=True)
            continue
        judge(family, label, group, automaton)
        if arguments.list and family.groups and label in family.groups[-1]:
            print(f"{name}: {family.groups[-1]}", flush=True)

    console = Console(width=150)
    table = Table("family", "schemas", "usable", "refused", "a valid one missing", "an invalid one taken")
    for name, one in found.items():
        share = f"{one.usable / one.total:.0%}"
        table.add_row(name, str(one.total), share, str(one.refused.total()), str(one.unwritten), str(one.wrong))
    console.print(table)
    refusals = sum((one.refused for one in found.values()), Counter())
    for text, count in refusals.most_common(arguments.refusals):
        console.print(f"{count:5} {text}", markup=False, highlight=False)
    times = sorted(seconds.values())
    slowest = sorted(seconds, key=seconds.__getitem__)[-3:]
    shares = {name: one.usable / one.total for name, one in found.items()}
    total, usable = sum(one.total for one in found.values()), sum(one.usable for one in found.values())
    wrong = sum(one.wrong for one in found.values())
    percentiles = {"median": statistics.median(times), "p99": times[int(0.99 * len(times))], "most": times[-1]}
    summary = {
        "benchmark": "constrain_schemas",
        "schemas": total,
        "usable": usable / total,
        "invalid_taken": wrong,
        "families": shares,
        "compile_seconds": percentiles,
        "slowest": slowest,
        "goal": {"usable": GOAL, "each_family": GOAL_OF_EACH, "invalid_taken": 0},
        "met": usable / total >= GOAL and min(shares.values()) >= GOAL_OF_EACH and not wrong,
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
