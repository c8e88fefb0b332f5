"""Stopping rules that a request chooses, in the engine."""

from gesso.engine.engine import Engine


def test_an_answer_region_ends_a_canvas_while_the_rest_goes_on(tiny: Engine) -> None:
    base = {"seed": 2, "max_new_tokens": 8, "max_denoising_steps": 12, "confidence_threshold": 10.0}
    whole = tiny.generate("Sort: b, a", stability_threshold=3, **base)
    part = tiny.generate("Sort: b, a", stopping="answer_region", region_start=7, stability_threshold=3, **base)
    assert sum(part.denoising_steps) < sum(whole.denoising_steps)
    assert part.converged == (True,)
