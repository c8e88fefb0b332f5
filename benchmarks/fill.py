"""How many programs work again when a name, an expression or a line that was cut out of them is filled.

    python benchmarks/fill.py                  60 programs of each kind, model mini
    python benchmarks/fill.py -n 200 --model FOLDER
    python benchmarks/fill.py --no-instruction --model FOLDER

The programs are held-out examples of the `code` task, whose prompt is the instruction; a filled program passes where it
does what the task asks. Beside it stands the same model writing from left to right, greedily by its causal pass, with
the same prompt and what stands before the hole, but nothing of what stands behind it: `left_to_right` puts all it
writes into the hole, `cut` what it writes up to the end of the name or the line, which the model is not told of. The
ceiling is the share of programs that pass with their own text put back. Without an instruction programs are held-out
functions of the skill `filling`, whose comments tell what they do, and holes are what follows from the rest: the
expression, the lines below the head, an argument's name where it is used. `--ends` gives programs the ends of lines
that files have. The last line is JSON.
"""

import argparse
import json
import random
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

import gesso
from gesso.control.fill import fill
from gesso.control.holes import Document, Hole
from gesso.control.job import run_job
from gesso.control.window import leading_space
from gesso.engine.engine import Engine, Request
from gesso.models.family import only_diffusion_gemma
from gesso.tasks.base import Example, Task, evaluation_set
from gesso.tasks.code import Code
from gesso.tasks.skills.filling import Filling

GOAL, GOAL_WITHOUT = 0.85, 0.70
LONGEST = 32
"""Tokens that the baseline may write."""


@dataclass(frozen=True, slots=True)
class Case:
    """A program with a part cut out."""

    kind: str
    example: Example
    before: str
    cut: str
    after: str
    task: Task
    instruction: str

    @property
    def document(self) -> Document:
        return Document((self.before, self.after), (Hole(),))

    def passes(self, text: str) -> bool:
        """With this in the hole; Python reads all ends of lines alike."""
        return self.task.grade(self.example, (self.before + text + self.after).replace("\r\n", "\n"))


def cut_name(source: str, _: random.Random) -> tuple[int, int]:
    found = re.search(r"(?<=def )\w+", source)
    assert found is not None
    return found.span()


def cut_expression(source: str, rng: random.Random) -> tuple[int, int]:
    return rng.choice([found.span() for found in re.finditer(r"(?<=return ).+", source)])


def cut_line(source: str, rng: random.Random) -> tuple[int, int]:
    return rng.choice([found.span() for found in re.finditer(r".+", source)])


def cut_body(source: str, _: random.Random) -> tuple[int, int]:
    lines = source.rstrip().split("\n")
    head = next(i for i, line in enumerate(lines) if line.startswith("def "))
    body = head + 2 if '"""' in lines[head + 1] else head + 1
    start = len("\n".join(lines[:body])) + 1
    return start, len(source)


def cut_argument(source: str, rng: random.Random) -> tuple[int, int]:
    argument = re.findall(r"(?<=\()\w+(?=[,)])", source[source.index("def ") :])[0]
    body = cut_body(source, rng)[0]
    uses = [found.span() for found in re.finditer(rf"(?<!\w){argument}(?!\w)", source) if found.start() >= body]
    return rng.choice(uses)


KINDS: dict[str, Callable[[str, random.Random], tuple[int, int]]] = {
    "name": cut_name,
    "expression": cut_expression,
    "line": cut_line,
}
KINDS_WITHOUT = {"expression": cut_expression, "body": cut_body, "argument": cut_argument}


ENDS: dict[str, Callable[[str], str]] = {
    "bare": lambda source: source,
    "lf": lambda source: f"{source}\n",
    "crlf": lambda source: f"{source}\n".replace("\n", "\r\n"),
}
"""What is made of a program: nothing behind its last line, or a file as most and as those of Windows are."""


def cases(kind: str, number: int, *, instructed: bool, ends: str = "bare") -> list[Case]:
    """The same ones on every call."""
    rng = random.Random(kind)
    task: Task = Code() if instructed else Filling()
    kinds = KINDS if instructed else KINDS_WITHOUT
    drawn = evaluation_set(task, number if instructed else 4 * number, seed=0)
    found = []
    for example in [e for e in drawn if instructed or e.kind.startswith("documented")][:number]:
        start, end = kinds[kind](example.answer, rng)
        start, end = (len(ENDS[ends](example.answer[:place])) - len(ENDS[ends]("")) for place in (start, end))
        source, instruction = ENDS[ends](example.answer), example.prompt if instructed else ""
        found.append(Case(kind, example, source[:start], source[start:end], source[end:], task, instruction))
    return found


@torch.inference_mode()
def left_to_right(engine: Engine, case: Case) -> str:
    """What the causal pass writes behind the prompt and what stands before the hole, token by token."""
    model = only_diffusion_gemma(engine.model, "model", "this benchmark")
    lead = leading_space(case.before)
    prefix = engine.tokenizer.encode(case.before.removesuffix(lead))
    ids = [*engine.start(Request(case.example.prompt)).prompt.ids, *prefix]
    cache = model.new_cache(batch_size=1, max_seq_len=len(ids) + LONGEST)
    written: list[int] = []
    pending = torch.tensor([ids])
    while len(written) < LONGEST:
        token = int(model.logits(model.encode(pending, cache)[:, -1:]).argmax())
        if token in engine.defaults.eos_token_ids:
            break
        written.append(token)
        pending = torch.tensor([[token]])
    return engine.tokenizer.decode(written).removeprefix(lead)


def cut(text: str, kind: str) -> str:
    """`text` up to the end of the name or of the line."""
    return re.split(r"\W" if kind == "name" else r"\n", text, maxsplit=1)[0]


def share(chosen: Sequence[Case], texts: Sequence[str]) -> float:
    """Of the programs that pass with these in their holes."""
    return statistics.mean(case.passes(text) for case, text in zip(chosen, texts, strict=True))


def measure(
    engine: Engine, kind: str, number: int, seed: int, *, instructed: bool, ends: str
) -> dict[str, float | str]:
    """Shares that pass, and what a fill took."""
    chosen = cases(kind, number, instructed=instructed, ends=ends)
    started = time.perf_counter()
    results = [run_job(engine, fill(engine, case.document, case.instruction, seed=seed)) for case in chosen]
    seconds = time.perf_counter() - started
    filled = [result.holes[0].text for result in results]
    written = [left_to_right(engine, case) for case in chosen]
    return {
        "kind": kind,
        "fill": share(chosen, filled),
        "exact": statistics.mean(text == case.cut for case, text in zip(chosen, filled, strict=True)),
        "left_to_right": share(chosen, written),
        "cut": share(chosen, [cut(text, kind) for text in written]),
        "ceiling": share(chosen, [case.cut for case in chosen]),
        "steps": statistics.mean(result.denoising_steps for result in results),
        "seconds": seconds / len(chosen),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("-n", type=int, default=60, help="programs of each kind")
    parser.add_argument("--no-instruction", action="store_true", help="nobody says what is missing")
    parser.add_argument("--ends", choices=ENDS, default="bare", help="of the programs' lines")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args(arguments)
    engine = gesso.load(given.model, given.device)
    instructed = not given.no_instruction
    kinds, goal = (KINDS, GOAL) if instructed else (KINDS_WITHOUT, GOAL_WITHOUT)
    rows = [measure(engine, kind, given.n, given.seed, instructed=instructed, ends=given.ends) for kind in kinds]
    columns = ("fill", "exact", "left_to_right", "cut", "ceiling", "steps", "seconds")
    print(f"{'kind':<12}" + "".join(f"{column:>15}" for column in columns))
    for row in rows:
        print(f"{row['kind']:<12}" + "".join(f"{row[column]:>15.3f}" for column in columns))
    passes = statistics.mean(float(row["fill"]) for row in rows)
    print(f"\npasses {passes:.1%} of the programs; the goal is {goal:.0%}")
    print(
        json.dumps(
            {
                "model": given.model,
                "instructed": instructed,
                "programs": given.n,
                "ends": given.ends,
                "seed": given.seed,
                "passes": passes,
                "rows": rows,
            }
        )
    )


if __name__ == "__main__":
    main()
