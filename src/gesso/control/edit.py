"""Edits a part of a text as an instruction says, and nothing else.

The model is asked for the part alone, and its answer is put between what stood before and after: so nothing else can
change. The canvas starts from the current text, of which `strength` says how much noise takes the place of: a small
edit keeps what need not change, in few steps. Below a strength of 1 a canvas is done as soon as it is confident.
"""

import difflib
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from gesso.control.job import Job
from gesso.control.selection import Everything, Parts, Passage, Selection, parts_of
from gesso.display import html
from gesso.engine.engine import Engine, Request
from gesso.engine.result import GenerationResult
from gesso.errors import OptionError
from gesso.generation import engine_options, mode_of
from gesso.generation.table import DENOISING, GUIDANCE
from gesso.options import Integer, Number, Text
from gesso.tasks.edit_prompt import edit_prompt
from gesso.tasks.skills.skill import REFUSAL, abstains
from gesso.text.tokenizer import Tokenizer

STRENGTH = 1.0
"""Default strength: `mini` is most often right when it starts from noise (`benchmarks/edit.py`)."""
SURE_ENOUGH = 0.01
"""Nats of mean entropy at which an edit that starts from the text ends: with `mini` 293 of 300 exact in 1.15 steps,
where the released 0.005 has 292 in 1.32, and 0.05 has 287 in 1.01."""
CONTEXT = 512
"""Tokens of the surroundings that the model reads."""
DIFF_CONTEXT = 3
"""Lines around a change that a diff shows."""
_OWN = ("start_canvas", "start_step", "prediction", "canvas", "begin", "raw", "thinking", "tools")
_STYLES = {"+": "color: #2e7d32", "-": "color: #c62828", "@": "color: #808080", "\\": "color: #808080"}
"""Styles of the lines of a diff in a notebook, by their first character."""
_NO_LINE_END = "\n\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class EditResult:
    """Holds an edited text: `text` is `before`, `replacement` and `after`; `selected` stood where `replacement`
    stands."""

    text: str
    before: str
    selected: str
    replacement: str
    after: str
    diff: str
    """Unified, of the whole texts; empty where nothing changed."""
    answer: GenerationResult
    """The request that wrote the replacement, with its seed, steps and seconds."""
    left_out: str | None = None
    """Why the answer was left out and nothing is changed: it was cut short, there was none, or it says that what is
    asked is outside the model's skills."""

    @property
    def changed(self) -> bool:
        return self.replacement != self.selected

    @property
    def denoising_steps(self) -> int:
        """Counts the denoising steps of all canvases."""
        return sum(self.answer.denoising_steps)

    @property
    def seconds(self) -> float:
        """Tells the wall-clock time of the request, in seconds."""
        return self.answer.seconds

    @property
    def prompt_tokens(self) -> int:
        """Counts the tokens of the instruction, the selection and what was read around it."""
        return self.answer.prompt_tokens

    def _repr_html_(self) -> str:
        """The diff and how it was made, for a notebook."""
        lines = [(line, _STYLES.get(line[:1], "")) for line in split_lines(self.diff)]
        facts = [html.count(self.denoising_steps, "step"), f"{self.seconds:.2f} s", f"seed {self.answer.seed}"]
        parts = [html.pieces(lines) if self.changed else html.line(["nothing changes"]), html.line(facts)]
        return html.block(parts if self.left_out is None else [html.warning(self.left_out), *parts])


def edit(
    engine: Engine,
    text: str,
    instruction: str,
    *,
    selection: Selection | None = None,
    strength: float | None = STRENGTH,
    context: int = CONTEXT,
    name: str = "text",
    adapter: str | None = None,
    **options: Any,
) -> Job[EditResult]:
    """Changes the selected part of a text as the instruction says.

    Args:
        selection: what may change: `Lines`, `Match`, or anything with `of(text)` that returns three texts: what stands
            before the part, the part, what stands after; None is all of it.
        strength: share of the selection's tokens that noise takes the place of, and of the denoising steps that are
            left, above 0 and at most 1; None denoises from noise alone. At 1 a model whose mode is `ar` writes token by
            token.
        context: tokens of the nearest lines around the selection that the model reads.
        name: what the diff calls the text.
        options: fields of `GenerationConfig`. Without `max_new_tokens` there is room for twice the selection and a
            canvas more.

    Raises:
        OptionError: a selection that is not there, is white, or cannot be written in the model's tokens; an empty
            instruction; an option that the edit decides itself; and see `Engine.generate`.
    """
    _check(text, instruction, strength, context, name, options)
    parts = parts_of(Everything() if selection is None else selection, text)
    passage = Passage.of(parts)
    tokens = _tokens(engine.tokenizer, passage.text)
    config = engine.defaults.override(canvas_length=options.get("canvas_length"), stopping=options.get("stopping"))
    width = config.canvas_length or engine.config.canvas_length
    start = engine.canvases_of(tokens, width)
    room = -(-2 * len(tokens) // width) * width + width
    # From noise alone nothing of the text is left in a canvas: a model that writes token by token does so here, too.
    mode = _mode(engine, options)
    started: dict[str, Any] = {"mode": mode}
    if strength is not None and not (strength == 1 and mode == "ar"):
        started = {"start_canvas": start, "strength": strength}
    if strength is not None and strength < 1:
        started |= config.stopping_options.for_given_text(sure=SURE_ENOUGH)
    prompt = edit_prompt(instruction, passage.text, *_surroundings(engine.tokenizer, parts, context))
    (answer,) = yield [Request(prompt, {"max_new_tokens": room, **started, **_given(options)}, adapter)]
    left_out = _fault(answer, instruction + passage.text)
    replacement = parts.selected if left_out else passage.restore(answer.text)
    edited = parts.before + replacement + parts.after
    return EditResult(
        text=edited,
        before=parts.before,
        selected=parts.selected,
        replacement=replacement,
        after=parts.after,
        diff=unified_diff(text, edited, name),
        answer=answer,
        left_out=left_out,
    )


def _mode(engine: Engine, options: dict[str, Any]) -> str:
    """Returns the mode of an answer: a model's own gives way to all options of canvases."""
    given, table = _given(options), engine_options()
    mode = mode_of(engine.defaults, given)
    of_canvases = (name for name in given if name in table and table[name].group in (DENOISING, GUIDANCE))
    return "canvas" if mode == "ar" and "mode" not in given and any(of_canvases) else mode


def unified_diff(old: str, new: str, name: str = "text") -> str:
    """Writes how `old` became `new`, as `patch` reads it; empty where they are equal."""
    if old == new:
        return ""
    before, after = split_lines(old), split_lines(new)
    head = _equal(before, after)
    tail = _equal(before[head:][::-1], after[head:][::-1])
    # Only what lies between the first and the last change is compared: where lines repeat, difflib takes the square of
    # their number. The lines around it have stand-ins, no two alike, so that they meet their own selves alone.
    end = len(before) - tail
    above, below = before[max(0, head - DIFF_CONTEXT) : head], before[end : end + DIFF_CONTEXT]
    stand_ins = [f"\n{place}" for place in range(len(above) + len(below))]
    shown = {f" {key}": f" {line}" for key, line in zip(stand_ins, above + below, strict=True)}
    left, right = (
        [*stand_ins[: len(above)], *lines[head : len(lines) - tail], *stand_ins[len(above) :]]
        for lines in (before, after)
    )
    found = difflib.unified_diff(left, right, fromfile=name, tofile=name, n=DIFF_CONTEXT)
    lines = [_moved(shown.get(line, line), head - len(above)) for line in found]
    return "".join(line if line.endswith("\n") else line + _NO_LINE_END for line in lines)


def split_lines(text: str) -> list[str]:
    """Splits a text into lines with their ends, as `patch` counts them: LF alone ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _equal(left: Sequence[str], right: Sequence[str]) -> int:
    """How many lines are equal from the start."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def _moved(line: str, skipped: int) -> str:
    """A line of a diff that was made `skipped` lines below the start of the texts."""
    if not line.startswith("@@"):
        return line
    return re.sub(r"(?<= [-+])[0-9]+", lambda found: str(int(found[0]) + skipped), line)


def _check(
    text: str, instruction: str, strength: float | None, context: int, name: str, options: dict[str, Any]
) -> None:
    if not isinstance(text, str):
        raise OptionError(f"the text to edit must be a string, got {text!r:.60}", option="text")
    Text().check("instruction", instruction)
    if not instruction.strip():
        raise OptionError("instruction is empty", option="instruction")
    if strength is not None:
        Number(above=0, maximum=1).check("strength", strength)
    Integer(minimum=0).check("context", context)
    Text().check("name", name)
    for option in _OWN:
        if option in options:
            raise OptionError(f"{option}: an edit decides it itself", option=option)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {option: value for option, value in options.items() if value is not None}


def _tokens(tokenizer: Tokenizer, text: str) -> list[int]:
    """The tokens of the selection, which the model must be able to write."""
    if not text:
        raise OptionError("text: there is nothing to edit in what is selected", option="text")
    tokens = tokenizer.encode(text)
    if (piece := tokenizer.special_piece(tokens)) is not None:
        raise OptionError(f"text: the selection holds {piece}, which has a meaning to the model", option="text")
    if tokenizer.decode(tokens) != text:
        raise OptionError("text: the selection cannot be written exactly in the model's tokens", option="text")
    return tokens


def _fault(answer: GenerationResult, asked: str) -> str | None:
    """Why an answer must not take the place of the selection.

    Args:
        asked: the instruction and the selection; a refusal that stands in them may be what is asked for.
    """
    if answer.finish_reason != "stop":
        return f"the answer was not finished within {answer.completion_tokens} tokens"
    if abstains(answer.text) and REFUSAL not in asked:
        return f"the model answered {REFUSAL!r}"
    # A model that is asked for too much ends at once, more often than it is asked to delete everything.
    return None if answer.text.strip() else "the answer is empty"


def _surroundings(tokenizer: Tokenizer, parts: Parts, limit: int) -> tuple[str, str]:
    """The lines nearest to the selection, from both sides in turn, of `limit` tokens in all."""
    # What follows the selection is, most often, the end of its last line: that is no line of its own.
    after = re.sub(r"\A\r?\n", "", parts.after)
    sides = (deque(reversed(split_lines(parts.before))), deque(split_lines(after)))
    kept: tuple[list[str], list[str]] = ([], [])
    while any(sides):
        for side, near in zip(sides, kept, strict=True):
            if not side:
                continue
            line = side.popleft()
            count = len(tokenizer.encode(line))
            if count > limit:
                side.clear()
                continue
            limit -= count
            near.append(line)
    return "".join(reversed(kept[0])), "".join(kept[1])
