"""Tells what an option of other trainers (TRL, axolotl, LLaMA-Factory, unsloth, PEFT) is called here."""

from collections.abc import Collection

OTHER_NAMES = {
    "--learning-rate": ("lr",),
    "--batch-size": ("train-batch-size", "global-batch-size"),
    "--epochs": ("num-train-epochs", "num-epochs", "n-epochs"),
    "--steps": ("max-steps", "iters"),
    "--max-length": ("max-seq-length", "max-seq-len", "sequence-len", "cutoff-len", "block-size"),
    "--out": ("output-dir", "output", "save-dir", "save-path"),
    "--model": ("model-name-or-path", "model-name", "base-model", "pretrained"),
    "--rank": ("r", "lora-r", "lora-rank"),
    "--alpha": ("lora-alpha",),
    "--dropout": ("lora-dropout",),
    "--target": ("target-modules", "lora-target", "lora-target-modules", "lora-modules"),
    "--adapter": ("adapter-name-or-path", "adapter-path", "lora-path", "peft-model"),
    "--evaluate-every": ("eval-steps", "eval-strategy", "evaluation-strategy", "do-eval", "steps-per-eval"),
    "--held-out": ("val-size", "val-set-size", "validation-split", "eval-ratio"),
    "--held-out-file": ("eval-dataset", "validation-file", "eval-file", "test-file"),
    "--checkpoint-every": ("save-steps", "save-strategy", "save-every", "save-interval"),
    "--keep": ("save-total-limit",),
    "--patience": ("early-stopping-patience", "early-stopping"),
    "--optimizer": ("optim",),
    "--precision": ("mixed-precision",),
    "--max-minutes": ("max-time", "time-limit"),
    "--kl": ("beta", "kl-coef", "kl-weight"),
    "--group-size": ("num-generations", "num-samples", "rollout-n"),
    "--reward": ("reward-funcs", "reward-func", "reward-fn", "reward-model"),
    "--tensorboard": ("report-to", "logging-dir"),
}
"""Options, each with what others call it."""
INSTEAD = {
    "--method": {
        "load-in-4bit": "--method qlora trains over weights of 4 bits",
        "full-finetuning": "--method full trains all weights",
        "finetuning-type": "--method says what is trained: lora, qlora or full",
    },
    "--precision": {"bf16": "--precision bfloat16 says so", "fp32": "--precision float32 says so"},
    "--micro-batch-size": dict.fromkeys(
        ("per-device-train-batch-size", "micro-batch", "gradient-accumulation-steps", "grad-accum"),
        "--batch-size is the whole of a step here, and --micro-batch-size what of it is computed at a time",
    ),
    "--out": dict.fromkeys(
        ("resume", "resume-from-checkpoint", "resume-from"), "the same command goes on with the run in --out"
    ),
    "--held-out-file": dict.fromkeys(
        ("data", "dataset", "dataset-name", "train-file", "data-path", "train-data", "training-data"),
        "files of data stand without an option, as in gesso finetune chats.jsonl --out runs/mine",
    ),
}
"""What there is where another name would not say it, by an option of the commands that have it."""


def other_name_hint(given: str, known: Collection[str]) -> str | None:
    """Returns what to write instead of an option that a command does not have; None where that is not known.

    Args:
        given: the option, with its dashes.
        known: the options that the command has.
    """
    name = given.lstrip("-").replace("_", "-").lower()
    for option, said in INSTEAD.items():
        if option in known and name in said:
            return said[name]
    found = next((option for option, names in OTHER_NAMES.items() if option in known and name in names), None)
    return f"{given} is {found} here" if found else None
