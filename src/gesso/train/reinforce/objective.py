"""Makes the policy gradient of a step: group-relative advantages, and the KL divergence from the start.

To each prompt a group of answers is drawn. An answer's advantage is its reward less the group's mean, in the group's
standard deviations (GRPO, arXiv 2402.03300); a group whose rewards are all alike teaches nothing and is not replayed.
The gradient is that of the mean, over all draws that counted, of -advantage * log p(draw). Each answer is drawn by the
very weights that are trained on it, once, so that there is no ratio to clip.

The KL divergence counts by half the squared log-ratio to the start at every draw, whose gradient is an unbiased
estimate of the divergence's; what is reported is the ratio's own estimate, which is never below 0. The start is
replayed with a self-conditioning of its own.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gesso.diffusion.canvas_state import DenoisingRules
from gesso.engine.engine import Engine, Request
from gesso.errors import OptionError
from gesso.models.adapters import without_adapter
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.text.chat_template import ChatTemplate
from gesso.text.graded import graded_text
from gesso.text.output import OutputParser
from gesso.text.tokenizer import Tokenizer
from gesso.train.distributed import ProcessGroup
from gesso.train.optimizer import trainable
from gesso.train.recipe import Recipe
from gesso.train.records import PolicyEvaluation, PolicyRecord
from gesso.train.reinforce.config import Case
from gesso.train.reinforce.replay import replay
from gesso.train.reinforce.rollout import CanvasRollout, Rollout, policy_rules, roll_out
from gesso.train.step import start_model


def advantages(rewards_PG: Tensor) -> Tensor:
    """Returns how much better each answer is than its group, in the group's standard deviations, [P, G]; exactly 0
    where a group's rewards are alike."""
    centred_PG = rewards_PG - rewards_PG.mean(dim=1, keepdim=True)
    alike_P1 = (rewards_PG == rewards_PG[:, :1]).all(dim=1, keepdim=True)
    scale_P1 = centred_PG.square().mean(dim=1, keepdim=True).sqrt().clamp(min=1e-6)
    return (centred_PG / scale_P1).masked_fill(alike_P1, 0.0)


def answer_seeds(seed: int, step: int, answers: int) -> range:
    """Returns the seeds of a step's answers; every step of a run has seeds of its own."""
    first = (seed << 32) + step * answers
    return range(first, first + answers)


class PolicyObjective:
    """Makes answers with higher rewards likelier."""

    def __init__(self, recipe: Recipe, model: DiffusionGemma, group: ProcessGroup) -> None:
        """
        Raises:
            OptionError: several processes, or a checkpoint whose draws cannot be replayed.
        """
        assert recipe.policy is not None
        assert recipe.start is not None
        if group.size > 1:
            raise OptionError("reinforcement draws its answers in one process: start it without torchrun")
        self._policy, self._train, self._cases = recipe.policy, recipe.train, recipe.cases
        self._model = model.eval()  # what is replayed must be what was drawn
        self._tokenizer = Tokenizer.from_folder(recipe.start)
        template = ChatTemplate.from_folder(recipe.start)
        steps, most = self._policy.max_denoising_steps, self._policy.max_new_tokens
        # What is drawn and replayed are canvases, so held-out prompts are answered by them too.
        self._generation = recipe.generation.override(max_denoising_steps=steps, max_new_tokens=most, mode="canvas")
        self._rules: DenoisingRules = policy_rules(self._generation)
        self._engine = Engine(model, self._tokenizer, template, self._generation)
        self._reference: DiffusionGemma | None = None
        if self._policy.kl_weight and (recipe.adapter is None or recipe.adapter_start is not None):
            self._reference = start_model(recipe, group.device).eval().requires_grad_(False)

    @property
    def root(self) -> nn.Module:
        return self._model

    def batches(self, first: int, last: int) -> Iterator[tuple[int, Sequence[Case]]]:
        for step in range(first, last):
            yield step, self._cases.cases(step, self._train.batch_size)

    def backward(self, batch: tuple[int, Sequence[Case]]) -> tuple[Tensor, int]:
        step, cases = batch
        device = self._model.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self._train.is_half(device)):
            rollouts = self._draw(step, cases)
            rewards_PG = torch.tensor(
                [
                    [case.reward(self.text(rollout)) for rollout in rollouts[begin : begin + self._policy.group_size]]
                    for begin, case in zip(range(0, len(rollouts), self._policy.group_size), cases, strict=True)
                ]
            )
            if not rewards_PG.isfinite().all():
                raise OptionError("a reward must be a finite number of 32 bits", option="reward")
            weights = advantages(rewards_PG).flatten().tolist()
            taught = [
                (canvas, weight)
                for rollout, weight in zip(rollouts, weights, strict=True)
                for canvas in rollout.canvases
                if weight
            ]
            measured, tokens = self._accumulate(taught)
        # Without any gradient AdamW would leave its state unmade, and a checkpoint could not be resumed.
        for _, parameter in trainable(self._model):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        canvases = [canvas for rollout in rollouts for canvas in rollout.canvases]
        measures = (
            rewards_PG.mean().item(),
            (rewards_PG >= 1).float().mean().item(),
            (rewards_PG != rewards_PG[:, :1]).any(dim=1).float().mean().item(),
            *measured,
            sum(len(canvas.transitions) for canvas in canvases) / len(canvases),
        )
        return torch.tensor(measures), tokens

    def text(self, rollout: Rollout) -> str:
        """Returns an answer as a grader gets it."""
        parser = OutputParser(self._tokenizer)
        for token in rollout.tokens[: self._policy.max_new_tokens]:
            parser.feed(token)
        parser.flush()
        return graded_text(parser)

    def _draw(self, step: int, cases: Sequence[Case]) -> list[Rollout]:
        """Draws a group of answers to each prompt, neighbours of each other."""
        prompts = [self._engine.start(Request(case.prompt, case.options)).prompt.ids for case in cases]
        size = self._policy.group_size
        width = self._generation.canvas_length or self._model.config.canvas_length
        return roll_out(
            self._model,
            [prompt for prompt in prompts for _ in range(size)],
            self._rules,
            answer_seeds(self._train.seed, step, size * len(prompts)),
            width=width,
            max_canvases=-(-self._policy.max_new_tokens // width),
            stop_tokens=self._generation.eos_token_ids,
        )

    def _accumulate(self, taught: Sequence[tuple[CanvasRollout, float]]) -> tuple[list[float], int]:
        """Adds the gradients of canvases with their advantages; returns the KL divergence from the start and the error
        of the replay, both in nats a draw, and the tokens that went through the model."""
        draws = sum(int(move.counted_C.sum()) for canvas, _ in taught for move in canvas.transitions)
        tokens = sum(move.canvas_C.numel() for canvas, _ in taught for move in canvas.transitions)
        size = self._train.micro_batch_size or len(taught)
        sums = torch.zeros(2)
        for begin in range(0, len(taught), size or 1):
            sums += self._accumulate_part(taught[begin : begin + size], draws)
        return (sums / max(1, draws)).tolist(), tokens

    def _accumulate_part(self, taught: Sequence[tuple[CanvasRollout, float]], draws: int) -> Tensor:
        """Does so with some of the canvases; returns the sums [2] over their draws."""
        canvases = [canvas for canvas, _ in taught]
        kl_weight, device = self._policy.kl_weight, self._model.device
        start = self._start_log_probs(canvases) if kl_weight else {}
        weight_B = torch.tensor([weight for _, weight in taught], device=device)
        sums = torch.zeros(2, device=device)

        def loss(step: int, rows: Sequence[int], log_probs_bC: Tensor) -> Tensor:
            moves = [canvases[i].transitions[step] for i in rows]
            counted_bC = torch.stack([move.counted_C for move in moves]).to(device)
            drawn_bC = torch.stack([move.log_probs_C for move in moves]).to(device)
            measured = [torch.zeros_like(drawn_bC), (log_probs_bC.detach() - drawn_bC).abs()]
            terms_bC = -weight_B[list(rows), None] * log_probs_bC
            if kl_weight:
                ratio_bC = torch.stack([start[i, step] for i in rows]) - log_probs_bC
                terms_bC = terms_bC + kl_weight * 0.5 * ratio_bC.square()
                measured[0] = (ratio_bC.exp() - 1 - ratio_bC).detach()
            sums.add_(torch.stack([part.masked_fill(~counted_bC, 0.0).sum() for part in measured]))
            return terms_bC.masked_fill(~counted_bC, 0.0).sum() / draws

        replay(
            self._model,
            canvases,
            loss,
            backprop_steps=self._policy.backprop_steps,
            checkpointing=self._train.gradient_checkpointing,
        )
        return sums.cpu()

    @torch.no_grad()
    def _start_log_probs(self, canvases: Sequence[CanvasRollout]) -> dict[tuple[int, int], Tensor]:
        """Returns the start's log-probabilities [C] of every canvas and step."""
        found: dict[tuple[int, int], Tensor] = {}

        def read(step: int, rows: Sequence[int], log_probs_bC: Tensor) -> None:
            found.update({(i, step): row_C for i, row_C in zip(rows, log_probs_bC, strict=True)})

        if self._reference is not None:
            replay(self._reference, canvases, read)
        else:
            with without_adapter(self._model):
                replay(self._model, canvases, read)
        return found

    def record(self, means: Sequence[float], **pace: Any) -> PolicyRecord:
        reward, right, mixed, kl, error, steps = means
        return PolicyRecord(
            reward=round(reward, 5),
            right=round(right, 5),
            mixed=round(mixed, 5),
            kl=round(kl, 6),
            replay_error=round(error, 8),
            denoising_steps=round(steps, 3),
            **pace,
        )

    def evaluate(self) -> tuple[float, float, float]:
        """Answers the held-out prompts as generation does, by seeds that never change.

        Raises:
            OptionError: nothing is held out.
        """
        cases = self._cases.evaluation(self._train.evaluation_examples)
        if not cases:
            raise OptionError(
                "evaluate_every looks at held-out prompts, and none are held out", option="evaluate_every"
            )
        requests = [Request(case.prompt, {**case.options, "seed": seed}) for seed, case in enumerate(cases)]
        results = self._engine.generate_batch(requests)
        rewards = [case.reward(graded_text(result)) for case, result in zip(cases, results, strict=True)]
        steps = [step for result in results for step in result.denoising_steps]
        return (
            -sum(rewards) / len(rewards),
            sum(reward >= 1 for reward in rewards) / len(rewards),
            sum(steps) / len(steps),
        )

    def evaluation(self, measures: Sequence[float], *, step: int, best: bool) -> PolicyEvaluation:
        loss, right, steps = (round(value, 5) for value in measures)
        return PolicyEvaluation(step, -loss, right, steps, best)
