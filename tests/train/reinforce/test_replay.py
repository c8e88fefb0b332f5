"""What is replayed is what was drawn, and its gradient is that of the expected reward, computed by enumeration."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from oracle import Shape, random_model
from torch import Tensor

from gesso.diffusion.canvas_state import DenoisingRules
from gesso.diffusion.prediction import Prediction
from gesso.diffusion.samplers.entropy_bound import EntropyBoundSampler
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.models.diffusion_gemma import DiffusionGemma, initialise
from gesso.train.encoder_rows import TokenRows
from gesso.train.forward import denoise, encode
from gesso.train.reinforce.replay import replay
from gesso.train.reinforce.rollout import CanvasRollout, Rollout, Transition, policy_rules, roll_out
from train.runs import SHAPE

PROMPTS = [[2, 5, 7], [3] * 9, [4, 1], [2, 5, 7], list(range(40))]


def drawn(model: DiffusionGemma, steps: int = 6) -> list[Rollout]:
    rules = DenoisingRules(steps, sampler=EntropyBoundSampler(entropy_bound=4.0))
    seeds = range(10, 10 + len(PROMPTS))
    return roll_out(model, PROMPTS, rules, seeds, width=SHAPE.canvas, max_canvases=3, stop_tokens=(1, 2, 3, 4, 5, 6))


def replayed(model: DiffusionGemma, canvases: Sequence[CanvasRollout], **options: int) -> dict[tuple[int, int], Tensor]:
    """Log-probabilities by canvas and step."""
    found: dict[tuple[int, int], Tensor] = {}

    def read(step: int, rows: Sequence[int], log_probs_bC: Tensor) -> None:
        found.update({(i, step): row_C for i, row_C in zip(rows, log_probs_bC, strict=True)})

    replay(model, canvases, read, **options)
    return found


@pytest.mark.parametrize("seed", [0, 4])
def test_replayed_log_probabilities_are_those_of_the_draw(seed: int) -> None:
    # As training starts: weights far from neutral would multiply rounding from step to step. The soft-cap of 5 is for
    # the draw, whose way to compute it loses some seven digits less its size.
    model = DiffusionGemma(replace(SHAPE, softcap=5.0).config())
    initialise(model, seed)
    model.eval().requires_grad_(False)
    answers = drawn(model)
    canvases = [canvas for answer in answers for canvas in answer.canvases]
    assert len(canvases) > len(PROMPTS), "some answers have a second canvas"
    found = replayed(model, canvases)
    assert len(found) == sum(len(canvas.transitions) for canvas in canvases)
    for (i, step), log_probs_C in found.items():
        torch.testing.assert_close(log_probs_C, canvases[i].transitions[step].log_probs_C, atol=1e-5, rtol=0)


def test_draws_count_where_they_lead_somewhere() -> None:
    model = random_model(SHAPE, seed=4)
    for answer in drawn(model):
        tokens: list[int] = []
        for canvas in answer.canvases:
            for move, after in itertools.pairwise(canvas.transitions):
                assert move.counted_C.any()
                assert move.tokens_C[move.counted_C].equal(after.canvas_C[move.counted_C])
            last = canvas.transitions[-1]
            assert canvas.context[len(canvas.context) - len(tokens) :] == tuple(tokens)
            tokens += last.tokens_C.tolist()
        # The last draw that counts ends the answer, or is the canvas's last.
        count = int(last.counted_C.sum())
        assert last.counted_C[:count].all()
        ends = last.tokens_C[count - 1].item() in (1, 2, 3, 4, 5, 6)
        assert ends or count == SHAPE.canvas
        assert answer.tokens == tuple(tokens[: len(tokens) - SHAPE.canvas + count - ends])


def test_an_answer_depends_on_its_seed_alone() -> None:
    model = random_model(SHAPE, seed=4)
    rules = DenoisingRules(4)
    options = {"width": SHAPE.canvas, "max_canvases": 1, "stop_tokens": (1,)}
    together = roll_out(model, [[2, 5], [3] * 9, [2, 5]], rules, [7, 8, 9], **options)  # type: ignore[arg-type]
    alone = roll_out(model, [[2, 5]], rules, [9], **options)  # type: ignore[arg-type]
    assert together[2].tokens == alone[0].tokens
    assert together[0].tokens != together[2].tokens


def test_settings_that_cannot_be_replayed_are_refused() -> None:
    with pytest.raises(OptionError, match="entropy_bound, and the checkpoint's is maskgit"):
        policy_rules(GenerationConfig(sampler="maskgit"))
    with pytest.raises(OptionError, match="logits processing"):
        policy_rules(GenerationConfig(top_p=0.9))
    with pytest.raises(OptionError, match="guidance"):
        policy_rules(GenerationConfig(guidance_scale=2.0))
    with pytest.raises(OptionError, match="past the model's"):
        roll_out(random_model(SHAPE), [[1]], DenoisingRules(2), [0], width=8, max_canvases=10**6, stop_tokens=(1,))


# The gradient --------------------------------------------------------------------------------------------------

TINY = Shape(layers="sf", vocab=3, hidden=16, mlp=16, heads=2, window=4, canvas=2, experts=2, top_k=1, expert_size=8)
PROMPT = (1, 0, 2)
RULES = DenoisingRules(2)
CANVASES = torch.tensor(list(itertools.product(range(3), repeat=2)))
REWARDS = torch.randn(9, generator=torch.Generator().manual_seed(0))
"""Of the nine answers."""


def accepted(logits_CV: Tensor) -> Tensor:
    log_probs_CV = logits_CV.log_softmax(dim=-1)
    entropy_C = -(log_probs_CV.exp() * log_probs_CV).sum(dim=-1).detach()
    return EntropyBoundSampler().accept(Prediction(entropy_C, entropy_C, entropy_C))


def walks(model: DiffusionGemma) -> tuple[Tensor, list[CanvasRollout], list[float]]:
    """Every walk of two steps: the expected reward, attached to the graph, and each walk with its probability times its
    reward."""
    encoded = encode(model, TokenRows(torch.tensor(PROMPT), (3,)))
    expected, rollouts, shares = torch.zeros(()), [], []
    first, second = RULES.temperature(1), RULES.temperature(2)
    for canvas_C in CANVASES:
        hidden = denoise(model, canvas_C[None], torch.tensor([3]), encoded, None)
        logits_CV = model.vocabulary.logits(hidden) / first
        embedding, kept_C = model.vocabulary.mix(logits_CV), accepted(logits_CV)
        noise = 3.0 ** -int((~kept_C).sum())
        hidden = denoise(model, CANVASES, torch.tensor([3] * 9), encoded.repeat(9), embedding.repeat(9, 1))
        last_SCV = (model.vocabulary.logits(hidden) / second).log_softmax(-1).view(9, 2, 3)
        for next_C, last_CV in zip(CANVASES, last_SCV, strict=True):
            # What is accepted was drawn, all else is noise.
            log_draw = (logits_CV.log_softmax(-1).gather(1, next_C[:, None])[:, 0] * kept_C).sum()
            reach = log_draw.exp() * noise / 9
            for reward, answer_C in zip(REWARDS, CANVASES, strict=True):
                value = reach * last_CV.gather(1, answer_C[:, None]).sum().exp() * reward
                expected = expected + value
                moves = (
                    Transition(canvas_C, next_C, kept_C, torch.zeros(2), first),
                    Transition(next_C, answer_C, torch.ones(2, dtype=torch.bool), torch.zeros(2), second),
                )
                rollouts.append(CanvasRollout(PROMPT, moves))
                shares.append(value.item())
    return expected, rollouts, shares


def policy_gradient(
    model: DiffusionGemma, rollouts: list[CanvasRollout], shares: list[float], **options: int
) -> Tensor:
    share_B = torch.tensor(shares)

    def gain(step: int, rows: Sequence[int], log_probs_bC: Tensor) -> Tensor:
        counted = torch.stack([rollouts[i].transitions[step].counted_C for i in rows])
        return (share_B[list(rows), None] * log_probs_bC * counted).sum()

    model.zero_grad()
    replay(model, rollouts, gain, **options)
    return flat(model)


def flat(model: DiffusionGemma) -> Tensor:
    return torch.cat(
        [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in model.parameters()]
    )


def test_the_policy_gradient_is_the_gradient_of_the_expected_reward() -> None:
    model = random_model(TINY, seed=5).requires_grad_(True)
    expected, rollouts, shares = walks(model)
    assert sum(share / REWARDS[i % 9].item() for i, share in enumerate(shares)) == pytest.approx(1.0, abs=1e-5)
    expected.backward()
    exact = flat(model)
    assert exact.norm() > 1e-2
    found = policy_gradient(model, rollouts, shares, backprop_steps=2)
    torch.testing.assert_close(found, exact, atol=2e-5, rtol=1e-3)
    checkpointed = policy_gradient(model, rollouts, shares, backprop_steps=2, checkpointing=True)
    torch.testing.assert_close(checkpointed, found, atol=1e-6, rtol=1e-4)
    # Taking the self-conditioning as given is another gradient, in much the same direction.
    given = policy_gradient(model, rollouts, shares)
    assert not torch.allclose(given, exact, atol=1e-4)
    assert torch.cosine_similarity(given, exact, dim=0) > 0.5
    # And the expected reward does rise along it; a longer way would change which positions are accepted.
    size = 3e-4 / exact.norm()
    values = []
    with torch.no_grad():
        for sign in (1, -2):
            shift = (sign * size * exact).split([p.numel() for p in model.parameters()])
            for parameter, part in zip(model.parameters(), shift, strict=True):
                parameter.add_(part.view_as(parameter))
            values.append(walks(model)[0].item())
    assert (values[0] - values[1]) / (2 * size) == pytest.approx(exact.square().sum().item(), rel=0.02)
