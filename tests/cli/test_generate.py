"""`gesso generate`, behind a pipe."""

import dataclasses
import io
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from engine.seeing import picture, png
from engine.tiny import reciter

from cli.conftest import Gesso
from gesso import api
from gesso.api import load
from gesso.cli import model_notes
from gesso.engine.engine import Engine
from gesso.engine.result import GenerationResult
from gesso.errors import TrainingError
from gesso.nn import cpu_threads
from gesso.runner import model_runner

PROMPT = "Sort: pear, fig"


@pytest.fixture(scope="module")
def engine(bundled: Path) -> Engine:
    return load(bundled / "mini", "cpu")


def test_the_text_alone_comes_out(gesso: Gesso, engine: Engine) -> None:
    expected = engine.generate(PROMPT, seed=4, max_new_tokens=20)
    outcome = gesso("generate", "--seed", 4, "--max-new-tokens", 20, PROMPT)
    assert (outcome.code, outcome.out, outcome.err) == (0, expected.text + "\n", "")
    assert gesso("generate", "--plain", "--seed", 4, "--max-new-tokens", 20, PROMPT) == outcome


def test_a_folder_may_be_named_as_the_model(gesso: Gesso, bundled: Path) -> None:
    by_name = gesso("generate", "--seed", 4, "--max-new-tokens", 8, PROMPT)
    assert gesso("generate", "-m", bundled / "mini", "--seed", 4, "--max-new-tokens", 8, PROMPT) == by_name


def test_json_is_one_line_with_everything(gesso: Gesso, engine: Engine) -> None:
    outcome = gesso("generate", "--json", "--seed", 4, "--max-new-tokens", 20, PROMPT)
    assert (outcome.code, outcome.err, outcome.out.count("\n")) == (0, "", 1)
    told = json.loads(outcome.out)
    fields = {field.name for field in dataclasses.fields(GenerationResult)}
    assert set(told) == fields | {"canvases", "passes", "tokens_per_forward", "tokens_per_second"}
    result = engine.generate(PROMPT, seed=4, max_new_tokens=20)
    for name in fields - {"seconds", "seconds_to_first_block", "seconds_to_prompt"}:
        value = getattr(result, name)
        assert told[name] == (list(value) if isinstance(value, tuple) else value), name
    assert told["canvases"] == 3
    assert told["tokens_per_forward"] == pytest.approx(20 / sum(told["denoising_steps"]), abs=1e-3)
    assert told["tokens_per_second"] == pytest.approx(20 / told["seconds"], rel=0.01)


def test_every_sampler_setting_reaches_the_engine(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    model = reciter("pear")

    def stream(prompt: Any, **options: Any) -> Any:
        seen.update(options, prompt=prompt)
        return Engine.stream(model, "hi")

    monkeypatch.setattr(model, "stream", stream, raising=False)
    monkeypatch.setattr(api, "load", lambda *_, **__: model)
    settings = {
        "--seed": 5, "--max-new-tokens": 16, "--max-denoising-steps": 7, "--entropy-bound": 0.25, "--t-min": 0.3,
        "--t-max": 0.9, "--stability-threshold": 2, "--confidence-threshold": 0.01, "--verify": 3,
        "--verify-threshold": 1.5,
    }  # fmt: skip
    flat = [part for pair in settings.items() for part in pair]
    stops = ["--stop", "a", "--stop", "b c", "--ignore-eos", "--start-canvas", "1,2, 3"]
    assert gesso("generate", *flat, *stops, "--system", "s", "--thinking", "hi").out == "pear\n"
    assert {seen[name.strip("-").replace("-", "_")]: value for name, value in settings.items()} == {
        value: value for value in settings.values()
    }
    assert (seen["stop"], seen["ignore_eos"], seen["start_canvas"]) == (("a", "b c"), True, (1, 2, 3))
    assert (seen["thinking"], seen.get("raw"), seen["frames"]) == (True, None, False)
    assert seen["prompt"] == [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]
    seen.clear()
    gesso("generate", "--raw", "hi")
    assert seen == {"prompt": "hi", "raw": True, "frames": False}, "what is not given is left to the checkpoint"


def test_device_dtype_and_offline_reach_the_loader(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def loader(*arguments: Any, **options: Any) -> Engine:
        assert callable(options.pop("tell"))
        seen.append((arguments, options))
        return reciter("pear")

    monkeypatch.setattr(api, "load", loader)
    gesso("generate", "hi", "--device", "cpu", "--dtype", "bfloat16", "--offline", "--model", "org/name")
    gesso("generate", "hi", "--adapter", "runs/mine/adapter")
    gesso("generate", "hi", "--cuda-graphs")
    gesso("generate", "hi", "--no-cuda-graphs")
    gesso("generate", "hi", "--tensor-parallel", "2")
    gesso("generate", "hi", "--pipeline-parallel", "3")
    usual: dict[str, Any] = {"device": "auto", "dtype": "auto", "offline": False, "adapter": None, "cuda_graphs": None}
    usual |= {"tensor_parallel": 1, "pipeline_parallel": 1, "device_memory": None, "threads": None}
    assert seen == [
        (("org/name",), {**usual, "device": "cpu", "dtype": "bfloat16", "offline": True}),
        (("mini",), {**usual, "adapter": "runs/mine/adapter"}),
        (("mini",), {**usual, "cuda_graphs": True}),
        (("mini",), {**usual, "cuda_graphs": False}),
        (("mini",), {**usual, "tensor_parallel": 2}),
        (("mini",), {**usual, "pipeline_parallel": 3}),
    ]


# What the answer must be


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        (["--regex", "[a-c]{2,4}"], "[a-c]{2,4}"),
        (["--choices", "yes, no"], "yes|no"),
        (["--choice", "Oslo, Norway", "--choice", "Lima"], "Oslo, Norway|Lima"),
        (["--choices", "a,b", "--choice", "c,d"], "a|b|c,d"),
        (["--json-object"], r"\{[\s\S]*\}"),
        (["--begin", "pear "], "pear [\\s\\S]*"),
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_constraint_holds(gesso: Gesso, options: list[str], pattern: str, seed: int) -> None:
    told = json.loads(gesso("generate", PROMPT, "--seed", seed, "--max-new-tokens", 30, "--json", *options).out)
    assert re.fullmatch(pattern, told["text"])


def test_a_large_model_on_a_cpu_says_what_is_quicker(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_notes, "LARGE", 1)
    told = "B active parameters on a CPU: --mode auto writes token by token where that is quicker\n"
    assert gesso("generate", PROMPT, "--seed", 1, "--plain").err.endswith(told)
    assert told in gesso("chat", "-m", "mini", stdin="x\n").err
    assert gesso("generate", PROMPT, "--seed", 1, "--plain", "--mode", "canvas").err == ""


def test_files_say_what_the_answer_must_be(gesso: Gesso, tmp_path: Path) -> None:
    schema, grammar = tmp_path / "schema.json", tmp_path / "rules.lark"
    schema.write_text('{"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2}')
    for mark in ("", "\ufeff"):
        grammar.write_text(f'{mark}start: "pear" | "fig"', encoding="utf-8")
        assert gesso("generate", PROMPT, "--seed", 1, "--grammar", grammar).out in {"pear\n", "fig\n"}
    array = json.loads(gesso("generate", PROMPT, "--seed", 1, "--json-schema", schema).out)
    assert array
    assert all(isinstance(item, bool) for item in array)
    for text in (
        ' {"type": "object", "properties": {"a//b": {"const": 1}}, "required": ["a//b"]}',
        '{"const": {"a//b": 1}}',
    ):
        assert gesso("generate", PROMPT, "--seed", 1, "--json-schema", text).out.startswith('{"a//b"')
    for text in ('root ::= "fig"', 'start: "fig"', 'start:\n  "fig"\n'):
        assert gesso("generate", PROMPT, "--seed", 1, "--grammar", text).out == "fig\n"
    schema.write_text("{")
    for option, path, problem in (
        ("--json-schema", schema, "no JSON"),
        ("--json-schema", tmp_path / "none", "No such file"),
        ("--grammar", tmp_path, "Is a directory"),
    ):
        outcome = gesso("generate", "x", option, path)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert f"{option} {path}: {problem}" in outcome.err


def test_pinned_tokens_are_where_they_were_put(gesso: Gesso) -> None:
    told = json.loads(gesso("generate", PROMPT, "--seed", 1, "--canvas", "_, 300,_,301", "--json").out)
    assert (told["token_ids"][1], told["token_ids"][3]) == (300, 301)


# Where the prompt comes from


def test_the_prompt_may_come_from_standard_input(gesso: Gesso) -> None:
    options = ("--seed", 4, "--max-new-tokens", 8)
    expected = gesso("generate", *options, PROMPT).out
    assert gesso("generate", *options, stdin=PROMPT).out == expected
    assert gesso("generate", *options, stdin=PROMPT + "\n").out == expected, "a pipe's last line break is not meant"
    assert gesso("generate", *options, "-", stdin=PROMPT + "\n").out == expected
    assert gesso("generate", *options, stdin="\ufeff" + PROMPT + "\n").out == expected, "a byte order mark is not meant"
    other = gesso("generate", *options, "--raw", stdin=PROMPT + "\n\n").out
    assert other == gesso("generate", *options, "--raw", PROMPT + "\n").out


@pytest.mark.parametrize("stdin", ["", "\n", " \n\t \n", None])
def test_no_prompt_at_all(gesso: Gesso, stdin: str | None) -> None:
    for argument in ([], ["-"]):
        outcome = gesso("generate", *argument, stdin=stdin)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert ("no prompt" if stdin is None else "blank") in outcome.err


@pytest.mark.parametrize("prompt", ["", "   ", "\n\t", "\u2003"])
@pytest.mark.parametrize("command", [["generate"], ["choose", "--options", "a,b"]])
def test_a_blank_prompt_is_refused(gesso: Gesso, command: list[str], prompt: str) -> None:
    outcome = gesso(*command, prompt)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", "gesso: the prompt is blank\n")


def test_input_that_is_no_text_is_refused(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "StringIO", lambda _: io.TextIOWrapper(io.BytesIO(b"caf\xe9"), encoding="utf-8"))
    outcome = gesso("generate", stdin="replaced")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "standard input is no UTF-8 text" in outcome.err


# What goes wrong


WRONG: list[tuple[list[str], str]] = [
    (["generate", "x", "--nope"], "--nope"),
    (["eval", "mini", "--failures", "-1"], "--failures must be at least 0, got -1"),
    (["models", "--json", "show", "mini"], "--json stands behind the name"),
    (["generate", "x", "--sed", "3"], "--sed"),
    (["generate", "x", "--json-schema", '{"type":'], "--json-schema: no JSON: Expecting value"),
    (["generate", "x", "--json-schema", ""], "--json-schema: it is empty, and names a file"),
    (["generate", "x", "--grammar", ""], "--grammar: it is empty, and names a file"),
    (["generate", "x", "--seed"], "--seed"),
    (["generate", "x", "--seed", "abc"], "Invalid value for '--seed'"),
    (["generate", "x", "--seed", "1.5"], "Invalid value for '--seed'"),
    (["generate", "x", "--seed", "-1"], "--seed must be an integer of at least 0, got -1"),
    (["generate", "x", "--entropy-bound", "much"], "Invalid value for '--entropy-bound'"),
    (["generate", "x", "--entropy-bound", "-1"], "--entropy-bound must be a number of at least 0"),
    (["generate", "x", "--sampler", "no"], "--sampler must be one of entropy_bound, block_refinement"),
    (["generate", "x", "--entropy-bound", "nan"], "--entropy-bound must be a finite number"),
    (["generate", "x", "--max-new-tokens", "0"], "--max-new-tokens must be an integer of at least 1"),
    (["generate", "x", "--max-new-tokens", "100000"], "past the model's 4096"),
    (["generate", "x", "--max-denoising-steps", "0"], "--max-denoising-steps must be"),
    (["generate", "x", "--t-min", "0.9"], "--t-max must be at least --t-min (0.9), got 0.8"),
    (["generate", "x", "--t-min", "0", "--t-max", "0"], "--t-max must be above 0"),
    (["generate", "x", "--stability-threshold", "-1"], "--stability-threshold must be"),
    (["generate", "x", "--stop", ""], "--stop must be a sequence of strings that are not empty"),
    (["generate", "x", "--start-canvas", "1,2"], "--start-canvas has 2 tokens, no whole number of canvases of 8"),
    (["generate", "x", "--start-canvas", "1,b"], "--start-canvas takes token ids separated by commas"),
    (["generate", "x", "--start-canvas", ""], "--start-canvas takes token ids separated by commas"),
    (["generate", "x", "--start-canvas", "1,2,3,4,5,6,7,9999"], "outside the vocabulary"),
    (["generate", "x", "--canvas", "1,,2"], "--canvas takes token ids separated by commas, such as 5,_,204"),
    (["generate", "x", "--canvas", "_,9999"], "--canvas has token id 9999"),
    (["generate", "x", "--choices", ""], "--choices must be a sequence of strings that are not empty"),
    (["generate", "x", "--regex", "(?<=a)b"], "look-behind"),
    (["generate", "x", "--json-object", "--regex", "a"], "--regex and --json-object contradict"),
    (["generate", "x", "--json", "--plain"], "--json and --plain contradict each other"),
    (["generate", "x", "--raw", "--system", "s"], "--raw takes the prompt as it is"),
    (["generate", "x", "--raw", "--thinking"], "--raw takes the prompt as it is"),
    (["generate", "what is <|image|>", "--raw"], "this model reads text only"),
    (["generate", "what is it", "--image", "none.png"], "name one that sees, such as --model sight"),
    (["generate", "what is it", "--image", "none.png", "--model", "mini"], "this model reads text only"),
    (["generate", "what is it", "--image-budget", "100"], "--image-budget must be one of 70, 140, 280, 560, 1120"),
    (["generate", "what is it", "--image-budget", "x"], "Invalid value for '--image-budget'"),
    (["generate", "what is it", "--video-fps", "0"], "--video-fps must be"),
    (["generate", "caf\udce9"], "no valid Unicode"),
    (["generate", "x", "--model", "nosuch"], "no model 'nosuch'"),
    (["generate", "x", "--model", ""], "no model ''"),
    (["generate", "x", "--model", "org/nosuch", "--offline"], "org/nosuch is no local folder"),
    (["generate", "x", "--device", "abacus"], "--device 'abacus' does not exist"),
    (["generate", "x", "--dtype", "int3"], "--dtype 'int3' does not exist"),
    (["chat", "--seed", "x"], "Invalid value for '--seed'"),
    (["chat", "--model", "nosuch"], "no model 'nosuch'"),
    (["chat", "--max-denoising-steps", "many"], "Invalid value for '--max-denoising-steps'"),
    (["frobnicate"], "frobnicate"),
    (["--frobnicate"], "--frobnicate"),
    (["models", "frobnicate"], "frobnicate"),
    (["models", "show"], "Missing argument"),
    (["models", "show", "nosuch"], "no model 'nosuch'"),
    (["models", "--colour"], "--colour"),
    (["replay"], "Missing argument"),
    (["replay", "nosuch.jsonl"], "nosuch.jsonl: No such file or directory"),
    (["replay", "nosuch.jsonl", "--speed", "-1"], "--speed must be at least 0"),
    (["train", "frobnicate"], "no recipe 'frobnicate'; known: mini"),
    (["train", "mini", "--stop-at", "0"], "--stop-at must be an integer of at least 1"),
    (["train", "mini", "--max-minutes", "-1"], "--max-minutes must be above 0"),
    (["train", "mini", "--within", "0"], "--within must be above 0, got 0"),
    (["train", "mini", "--threads", "none"], "Invalid value for '--threads'"),
    (["eval", "--task", "frobnicate"], "no task 'frobnicate'; known: json, code"),
    (["eval", "-n", "0"], "--examples must be an integer of at least 1"),
    (["eval", "nosuch"], "no model 'nosuch'"),
]


def test_half_a_character_is_refused_before_anything_is_said_of_words(gesso: Gesso) -> None:
    outcome = gesso("generate", "wexing \udc80")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("gesso: the prompt is no valid Unicode")


@pytest.mark.parametrize(("arguments", "what"), WRONG, ids=[ascii(" ".join(w[0])) for w in WRONG])
def test_a_mistake_is_one_line_and_exit_code_2(gesso: Gesso, arguments: list[str], what: str) -> None:
    outcome = gesso(*arguments)
    assert (outcome.code, outcome.out == "") == (2, "--json" not in arguments)
    assert outcome.err.startswith("gesso: ")
    assert outcome.err.count("\n") == 1
    assert what in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "wexing", "--seed", -1),
        ("generate", "wexing", "--sampler", "entropybound"),
        ("chat", "--top-p", 0),
        ("choose", "wexing", "--options", "a,b", "--seed", -1),
    ],
)
def test_an_impossible_value_is_refused_before_a_model_is_chosen(
    gesso: Gesso, monkeypatch: pytest.MonkeyPatch, arguments: tuple[Any, ...]
) -> None:
    def loader(*_: Any, **__: Any) -> Engine:
        raise AssertionError

    monkeypatch.setattr(api, "load", loader)
    outcome = gesso(*arguments, stdin="")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert outcome.err.startswith(f"gesso: {arguments[-2]} must be ")


@pytest.mark.parametrize(
    "arguments", [("generate", "Sort:", "fig"), ("edit", "file", "Rename", "x"), ("chat", "--system", "Be", "brief")]
)
def test_words_without_quotes_are_told_of_them(gesso: Gesso, arguments: tuple[str, ...]) -> None:
    outcome = gesso(*arguments)
    assert outcome.code == 2
    assert re.fullmatch(r"gesso: .*unexpected extra argument.*\n  .* in quotes, .*\n", outcome.err)
    assert "quotes" not in gesso("models", "show", "mini", "fig").err


@pytest.mark.parametrize("command", ["serve", "studio", "chat"])
def test_a_model_without_its_flag_is_told_of_it(gesso: Gesso, command: str) -> None:
    outcome = gesso(command, "skills")
    assert outcome.code == 2
    assert re.fullmatch(
        rf"gesso: .*unexpected extra argument.*\n  the model goes with -m, as in gesso {command} -m skills\n",
        outcome.err,
    )


@pytest.mark.parametrize("command", ["bench", "eval", "quantize", "reinforce", "models show"])
@pytest.mark.parametrize("flag", ["-m", "--model"])
def test_a_model_with_a_flag_that_is_none_is_told_of_it(gesso: Gesso, command: str, flag: str) -> None:
    outcome = gesso(*command.split(), flag, "mini")
    assert outcome.code == 2
    assert outcome.err.endswith(f"\n  the model has no flag here, as in gesso {command} mini\n")
    assert "no flag here" not in gesso(*command.split(), "--nope").err


def test_a_broken_checkpoint_is_one_line_and_exit_code_2(gesso: Gesso, bundled: Path, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "model.safetensors", "generation_config.json", "chat_template.jinja"):
        folder = tmp_path / name
        folder.mkdir()
        for file in (bundled / "mini").iterdir():
            content = file.read_bytes()
            (folder / file.name).write_bytes(content[: len(content) // 2] if file.name == name else content)
        outcome = gesso("generate", "x", "--model", folder)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1), name
        # Of the template its error is told, not its path.
        assert name in outcome.err or "the chat template cannot be read" in outcome.err
    outcome = gesso("generate", "x", "--model", tmp_path)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "holds no config.json" in outcome.err


def test_what_is_nobodys_mistake_is_one_line_and_exit_code_1(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    def loader(*_: Any, **__: Any) -> Engine:
        raise TrainingError("the disk\nis full")

    monkeypatch.setattr(api, "load", loader)
    outcome = gesso("generate", "x")
    assert (outcome.code, outcome.out, outcome.err) == (1, "", "gesso: the disk is full\n")


# Ctrl-C


WORDS = "pear fig apple kiwi lemon mango plum lime grape peach"


def test_ctrl_c_ends_with_what_is_committed(
    gesso: Gesso, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, interrupt_at: Any
) -> None:
    monkeypatch.setattr(api, "load", lambda *_, **__: reciter(WORDS, canvas=2))
    before = signal.getsignal(signal.SIGINT)
    interrupt_at(5)
    outcome = gesso("generate", "hi", "--trace", tmp_path / "trace")
    assert (outcome.code, outcome.out, outcome.err) == (130, "pear fig apple kiwi\n", "")
    assert signal.getsignal(signal.SIGINT) == before
    again = gesso("replay", tmp_path / "trace")
    assert (again.code, again.out) == (130, outcome.out)


def test_ctrl_c_leaves_json_whole(gesso: Gesso, monkeypatch: pytest.MonkeyPatch, interrupt_at: Any) -> None:
    monkeypatch.setattr(api, "load", lambda *_, **__: reciter(WORDS, canvas=2))
    interrupt_at(3)
    outcome = gesso("generate", "hi", "--json")
    told = json.loads(outcome.out)
    assert outcome.code == 130
    assert (told["finish_reason"], told["text"], told["denoising_steps"]) == ("cancelled", "pear fig", [2, 1])


def test_ctrl_c_shows_what_was_held_back(gesso: Gesso, monkeypatch: pytest.MonkeyPatch, interrupt_at: Any) -> None:
    monkeypatch.setattr(api, "load", lambda *_, **__: reciter(WORDS, canvas=2))
    interrupt_at(3)
    assert gesso("generate", "hi", "--stop", "fig lime").out == "pear fig\n"


def test_a_second_ctrl_c_interrupts_as_usual(gesso: Gesso, monkeypatch: pytest.MonkeyPatch, interrupt_at: Any) -> None:
    """Here both come during one pass, which would otherwise have to be waited for."""
    monkeypatch.setattr(api, "load", lambda *_, **__: reciter(WORDS, canvas=2))
    step = model_runner.denoise_step

    def twice(*arguments: Any) -> None:
        step(*arguments)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(model_runner, "denoise_step", twice)
    outcome = gesso("generate", "hi")
    assert (outcome.code, outcome.out) == (130, "")
    assert not outcome.err.strip()
    assert signal.getsignal(signal.SIGINT) == before


def test_ctrl_c_while_loading(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    def loader(*_: Any, **__: Any) -> Engine:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "load", loader)
    outcome = gesso("generate", "x")
    assert (outcome.code, outcome.out, outcome.err.strip()) == (130, "", "")


def test_text_for_a_terminal_is_harmless_for_it(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "load", lambda *_, **__: reciter("fig\x1b[31m\x07\ttab"))
    assert gesso("generate", "x").out == "fig\x1b[31m\x07\ttab\n", "a pipe gets what the model said"
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    assert gesso("generate", "x", "--plain").out == "fig\N{MIDDLE DOT}[31m\N{MIDDLE DOT}\ttab\n"


def test_images_and_clips_are_shown_to_the_model(gesso: Gesso, seeing_folder: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        (tmp_path / f"{seed}.png").write_bytes(png(seed))
    frames = [picture(seed=seed) for seed in (1, 2, 3)]
    frames[0].save(tmp_path / "clip.gif", save_all=True, append_images=frames[1:], duration=1000)
    common = (
        "generate",
        "what?",
        "-m",
        seeing_folder,
        "--seed",
        1,
        "--max-new-tokens",
        8,
        "--image-budget",
        70,
        "--json",
    )

    def shown(*arguments: object) -> dict[str, Any]:
        outcome = gesso(*common, *arguments)
        assert outcome.code == 0, outcome.err
        found: dict[str, Any] = json.loads(outcome.out)
        return found

    none = shown()
    one, two = shown("--image", tmp_path / "1.png"), shown("--image", tmp_path / "2.png")
    assert one["prompt_tokens"] == two["prompt_tokens"] == none["prompt_tokens"] + 66
    assert one["token_ids"] != two["token_ids"]
    both = shown("--image", tmp_path / "1.png", "--image", tmp_path / "2.png", "--system", "s")
    assert both["prompt_tokens"] > none["prompt_tokens"] + 2 * 66
    clip = shown("--video", tmp_path / "clip.gif")
    assert clip["prompt_tokens"] > none["prompt_tokens"] + 3 * 66
    assert shown("--video", tmp_path / "clip.gif", "--video-frames", 2)["prompt_tokens"] < clip["prompt_tokens"] - 66
    for name, what in (("http://127.0.0.1:1/x.png", "is an address: nothing is fetched here"), ("", "'' is no file")):
        assert what in gesso(*common, "--image", name).err
    missing = gesso(*common, "--image", tmp_path / "none.png")
    assert missing.code == 2
    assert "none.png' is no file" in missing.err


def test_threads_are_taken_before_the_model_is_loaded(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr(cpu_threads, "_decided", False)
    monkeypatch.setattr(torch, "set_num_threads", taken.append)
    assert gesso("generate", "hi", "--max-new-tokens", 4, "--threads", 3).code == 0
    assert taken == [3]
