"""Measures every skill on a model's card anew, by the commands that stand on it, and writes the figures there.

    python benchmarks/card.py FOLDER            all skills of FOLDER/card.json
    python benchmarks/card.py FOLDER --skill sorting --skill sums --keep

A skill's command is run with FOLDER in place of the model's name, once where several have the same: theirs are its
tasks, in this order. Prints what was and what is, with the ceiling of
100%, and a Markdown table; `--keep` leaves the card as it was. The last line is JSON.
"""

import argparse
import json
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from gesso.models.card import CARD, read_card


@cache
def measured(folder: Path, command: str) -> list[dict[str, Any]]:
    """Returns what `gesso eval` prints of the tasks of a card's command: one, or where it names none, all of the
    model's."""
    gesso, evaluate, _, *options = shlex.split(command)
    assert (gesso, evaluate) == ("gesso", "eval"), f"a card's commands are `gesso eval MODEL ...`, not {command!r}"
    run = [sys.executable, "-m", "gesso", evaluate, str(folder), *options, "--json"]
    return list(json.loads(subprocess.run(run, check=True, stdout=subprocess.PIPE).stdout)["tasks"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--skill", action="append", default=[], help="these only")
    parser.add_argument("--keep", action="store_true", help="leave the card as it was")
    arguments = parser.parse_args()
    path = arguments.folder / CARD
    if read_card(arguments.folder) is None:
        parser.error(f"{path} is not there")
    card = json.loads(path.read_text())
    table = Table("skill", "before, %", "now, %", "95% interval", "goal", "steps")
    wanted = [skill for skill in card["skills"] if not arguments.skill or skill["name"] in arguments.skill]
    if unknown := set(arguments.skill) - {skill["name"] for skill in wanted}:
        parser.error(f"{path} has no skill {', '.join(sorted(unknown))}")
    shares: dict[str, dict[str, float]] = {}
    rows = []
    console = Console(stderr=True)
    for skill in track(wanted, "skills", console=console):
        alike = [other["name"] for other in card["skills"] if other["command"] == skill["command"]]
        task = measured(arguments.folder, skill["command"])[alike.index(skill["name"])]
        low, high = task["interval"]
        found = {
            "right": round(task["right"] / task["examples"], 3),
            "low": round(low, 3),
            "high": round(high, 3),
            "steps": round(task["mean_steps"], 1),
            "examples": task["examples"],
        }
        interval, before = f"{low:.1%} to {high:.1%}", f"{100 * skill['right']:.1f}"
        table.add_row(
            skill["name"], before, f"{found['right']:.1%}", interval, f"{skill['goal']:.0%}", f"{found['steps']}"
        )
        groups = " | ".join(f"{group['right']}/{group['examples']}" for group in task["groups"].values())
        rows.append(f"| `{skill['name']}` | {found['right']:.1%} | {interval} | {skill['goal']:.0%} | {groups} |")
        shares[skill["name"]] = {"before": skill["right"], "now": found["right"], "goal": skill["goal"]}
        skill.update(found)
        if not arguments.keep:
            path.write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n")
    Console().print(table)
    print("\n".join(rows))
    met = sum(share["now"] >= share["goal"] for share in shares.values())
    print(
        json.dumps(
            {"benchmark": "card", "model": str(arguments.folder), "skills": shares, "goals_met": met, "ceiling": 1.0}
        )
    )


if __name__ == "__main__":
    main()
