"""`gesso chat`: a conversation in the terminal."""

import sys
from typing import Any

from gesso.cli import options as opt

HELP = "/clear forgets the conversation, /exit or Ctrl-D ends it, Ctrl-C stops an answer"


def chat(
    model: opt.Model = "mini",
    system: opt.System = None,
    seed: opt.Seed = None,
    max_new_tokens: opt.MaxNewTokens = None,
    max_denoising_steps: opt.MaxSteps = None,
    entropy_bound: opt.EntropyBound = None,
    t_min: opt.TMin = None,
    t_max: opt.TMax = None,
    stability_threshold: opt.Stability = None,
    confidence_threshold: opt.Confidence = None,
    stop: opt.Stop = None,
    thinking: opt.Thinking = False,
    adapter: opt.Adapter = None,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    offline: opt.Offline = False,
) -> int:
    """Talk with a model; a line is a message."""
    request = opt.generation_options(
        seed=seed,
        max_new_tokens=max_new_tokens,
        max_denoising_steps=max_denoising_steps,
        entropy_bound=entropy_bound,
        t_min=t_min,
        t_max=t_max,
        stability_threshold=stability_threshold,
        confidence_threshold=confidence_threshold,
        stop=stop,
        ignore_eos=False,
        start_canvas=None,
    )
    from gesso.api import load
    from gesso.cli.interrupt import first_interrupt
    from gesso.cli.session import note, present
    from gesso.errors import UserError

    engine = load(model, device, dtype, offline=offline, adapter=adapter)
    live = sys.stdout.isatty() and sys.stdin.isatty()
    if live:
        import readline  # noqa: F401  (gives input() its line editing)

        note(f"{model} \N{MIDDLE DOT} {HELP}")
    start: list[dict[str, Any]] = [{"role": "system", "content": system}] if system is not None else []
    messages = list(start)
    while (line := _ask(live)) is not None:
        if line in ("/exit", "/quit"):
            break
        if line == "/clear":
            messages = list(start)
            continue
        if line.startswith("/"):
            note(f"no command {line.split()[0]}: {HELP}")
            continue
        if not line.strip():
            continue
        messages.append({"role": "user", "content": line})
        try:
            stream = engine.stream(messages, drafts=live, thinking=thinking, **request)
        except UserError as error:
            note(f"gesso: {error}")
            messages.pop()
            continue
        with first_interrupt(stream.cancel):
            result = present(iter(stream), live=live, as_json=False, special=engine.tokenizer.special_ids)
        messages.append({"role": "assistant", "content": result.text})
    return 0


def _ask(live: bool) -> str | None:
    """The next line; None at the end of the input."""
    from gesso.errors import TextError

    while True:
        try:
            return input("> " if live else "")
        except EOFError:
            if live:
                print()
            return None
        except UnicodeDecodeError as error:
            raise TextError(f"standard input is no UTF-8 text: {error}") from None
        except KeyboardInterrupt:
            if not live:
                raise
            print()
