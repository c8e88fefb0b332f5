"""`gesso eval --likelihood`."""

import json
from pathlib import Path
from typing import Any

import pytest
from engine.seeing import make_seeing_folder, png

from cli.conftest import Gesso
from gesso.api import load
from gesso.control.job import run_job
from gesso.control.likelihood import causal_scores
from gesso.engine.engine import Request


def write(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "\n", encoding="utf-8")
    return path


def test_a_pair_is_scored_as_the_chat_template_writes_it(gesso: Gesso, bundled: Path, tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": "Sort: b, a", "completion": "a, b"}, {"text": "pear fig pear"})
    told = json.loads(gesso("eval", "mini", "--likelihood", path, "--samples", 0, "--json").out)
    engine = load(bundled / "mini", "cpu")
    prompt = engine.start(Request("Sort: b, a")).prompt.ids
    answer = [*engine.tokenizer.encode("a, b"), engine.end_of_turn]
    text = [*engine.tokenizer.encode("pear fig pear"), engine.config.eos_token_id]
    scores = run_job(engine, causal_scores(engine, [(prompt, answer), ([engine.config.bos_token_id], text)]))
    assert told["causal_nats"] == pytest.approx(-sum(score.logprob for score in scores), abs=1e-3)
    assert (told["examples"], told["tokens"]) == (2, len(answer) + len(text))
    assert told["causal_nats_per_token"] == pytest.approx(told["causal_nats"] / told["tokens"])
    assert (told["samples"], told["bound_nats"], told["passes"]) == (0, None, 0)


def test_the_bound_is_told_with_its_error(gesso: Gesso, tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": "Sort: b, a", "completion": "a, b"})
    told = json.loads(gesso("eval", "mini", "--likelihood", path, "--samples", 4, "--json").out)
    assert told["passes"] == 4 * -(-told["tokens"] // 8)
    assert told["bound_nats"] > 0
    shown = gesso("eval", "mini", "--likelihood", path, "--samples", 4).out
    assert "denoiser" in shown
    assert f"at most {told['bound_nats']:.1f} ±" in shown
    assert "\n1 answer; " in shown


def test_fewer_answers_where_so_many_are_asked_for(gesso: Gesso, tmp_path: Path) -> None:
    path = write(tmp_path, *({"text": "pear"} for _ in range(5)))
    told = json.loads(gesso("eval", "mini", "--likelihood", path, "--samples", 0, "-n", 2, "--json").out)
    assert told["examples"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--samples", 4), "--samples needs --likelihood"),
        (("--likelihood", "x.jsonl", "--task", "code"), "--task does not go with --likelihood"),
        (("--likelihood", "x.jsonl", "--best-of", 2), "--best-of does not go with --likelihood"),
        (("--likelihood", "x.jsonl", "--check", "task"), "--check needs --best-of or --particles"),
        (("--likelihood", "x.jsonl", "--select", "likelihood"), "--select needs --best-of"),
        (("--likelihood", "x.jsonl", "--at-once", 3), "--at-once needs --best-of"),
        (("--likelihood", "x.jsonl", "--no-augment"), "--augment needs --best-of"),
        (("--likelihood", "x.jsonl", "--resample-every", 2), "--resample-every needs --particles"),
        (("--likelihood", "x.jsonl", "--reward-scale", 2), "--reward-scale needs --particles"),
        (("--likelihood", "x.jsonl", "--max-denoising-steps", 2), "--max-denoising-steps does not go"),
        (("--likelihood", "x.jsonl", "-n", 0), "--examples must be an integer of at least 1"),
        (("--likelihood", "x.jsonl", "--samples", 1), "--samples must be 0 or from 2 to 65,536, got 1"),
        (("--likelihood", "x.jsonl", "--samples", 10**11), "--samples must be 0 or from 2 to 65,536"),
        (("--likelihood", "x.jsonl", "--seed", -1), "--seed must be at least 0"),
        (("--likelihood", "x.jsonl", "--seed", 10**20), "--seed must be at least 0 and below 2^62"),
        (("--likelihood", "x.jsonl"), "x.jsonl cannot be read: No such file"),
    ],
)
def test_mistakes_are_one_line(gesso: Gesso, arguments: tuple[object, ...], message: str) -> None:
    outcome = gesso("eval", "mini", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"gesso: {message}")


def test_a_bad_line_is_named(gesso: Gesso, tmp_path: Path) -> None:
    outcome = gesso("eval", "mini", "--likelihood", write(tmp_path, {"text": "a"}, {"prompt": "b"}))
    assert outcome.code == 2
    assert "line 2: a line holds messages" in outcome.err
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n", encoding="utf-8")
    assert "holds no example" in gesso("eval", "mini", "--likelihood", empty).err


def test_a_line_that_is_too_long_for_the_bound_is_named(gesso: Gesso, tmp_path: Path) -> None:
    path = write(tmp_path, {"text": "pear"}, {"prompt": "Repeat it", "completion": "pear " * 4100})
    refused = gesso("eval", "mini", "--likelihood", path, "--samples", 2)
    assert refused.code == 2
    first, second = refused.err.strip().splitlines()[-2:]
    assert first.startswith(f"gesso: {path}, line 2: ")
    assert "past the model's" in first
    assert second.strip().startswith("--samples 0 leaves the bound out")


def test_a_byte_order_mark_is_none_of_the_first_line(gesso: Gesso, tmp_path: Path) -> None:
    path = write(tmp_path, {"text": "pear"})
    path.write_text("\ufeff" + path.read_text("utf-8"), "utf-8")
    told = gesso("eval", "mini", "--likelihood", path, "--samples", 0, "--json")
    assert (told.code, json.loads(told.out)["examples"]) == (0, 1)


def test_a_text_that_is_none_is_named(gesso: Gesso, tmp_path: Path) -> None:
    outcome = gesso("eval", "mini", "--likelihood", write(tmp_path, {"text": "a"}, {"text": "a \ud800"}))
    assert outcome.code == 2
    assert "line 2: the text is no valid Unicode" in outcome.err


def test_images_are_refused_for_what_they_are(gesso: Gesso, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(0))
    shown = [{"type": "image", "path": "a.png"}, {"type": "text", "text": "What is it?"}]
    messages = [{"role": "user", "content": shown}, {"role": "assistant", "content": "red"}]
    path = write(tmp_path, {"messages": messages})
    outcome = gesso("eval", make_seeing_folder(tmp_path / "seeing"), "--likelihood", path, "--samples", 0)
    assert (outcome.code, outcome.out) == (2, "")
    assert "line 1: images cannot be scored: leave this line out" in outcome.err
    assert "this model reads text only" in gesso("eval", "mini", "--likelihood", path, "--samples", 0).err
