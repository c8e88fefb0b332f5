"""Runs one model split by its layers: stages follow each other, several micro-batches under way.

See `gesso.pipeline_parallel`.
"""

from collections import deque
from pathlib import Path
from typing import Self

import torch

from gesso.diffusion.canvas_state import CanvasState
from gesso.diffusion.denoise import finish_step, step_inputs
from gesso.models.cache import cache_bytes
from gesso.models.loading import read_model_config
from gesso.models.vision_tower import VisionModel
from gesso.pipeline_parallel.loading import load_stage
from gesso.pipeline_parallel.model import StagedModel, StagedPass
from gesso.pipeline_parallel.stages import OPTION, micro_batches, stage_layers
from gesso.ranks.processes import RankProcesses
from gesso.runner.leading_runner import LeadingRunner
from gesso.runner.protocol import CanvasBatch, LayerKind


class PipelineRunner(LeadingRunner):
    """Implements `Runner` as the leader of stages. Its own is the first; it also embeds, scores and draws."""

    option = OPTION
    follower = "gesso.pipeline_parallel.follower"
    ring = True

    def __init__(self, model: StagedModel, processes: RankProcesses, vision: VisionModel | None = None) -> None:
        """
        Args:
            model: the first stage.
            processes: of the other ranks, which have loaded theirs.
            vision: tower and projector, which run here alone.
        """
        super().__init__(model, model.group, model.numbers, processes, vision)
        self.stage = model
        self._parts = [model.part(stage) for stage in range(model.group.size)]

    @classmethod
    def _check(cls, folder: Path, ranks: int) -> None:
        stage_layers(read_model_config(folder), ranks)

    @classmethod
    def _load(
        cls, folder: Path, dtype: str, adapter: str | None, processes: RankProcesses, vision: VisionModel | None
    ) -> Self:
        return cls(load_stage(folder, dtype, adapter, processes.start()), processes, vision)

    @property
    def stage_times(self) -> list[list[tuple[int, int, int]]]:
        """Returns the newest times of every stage; see `StagedModel.times`."""
        with self._lock:
            self.group.announce("times")
            return [list(self.stage.times), *self.group.answers()]

    def kv_memory(self, reserved: int) -> int:
        # Memory is measured on this rank's device, and the fullest stage has less room than this one.
        return super().kv_memory(reserved + (max(self.held) - self.held[0]) * self._itemsize)

    def cache_bytes(self, max_seq_len: int, max_write_len: int) -> int:
        sizes = (self.model.dtype, max_seq_len, max_write_len)
        return max(cache_bytes(part, *sizes) for part in self._parts)

    def prefix_bytes(self, tokens: int, kind: LayerKind) -> int:
        return max(self._prefix_bytes(part.layers, tokens, kind) for part in self._parts)

    @torch.inference_mode()
    def denoise(self, batch: CanvasBatch) -> None:
        with self._lock:
            self._activate(batch.adapter)
            parts = micro_batches([item.canvas.width for item in batch.items], self.group.size)
            under_way = deque[StagedPass]()
            waiting = deque[list[CanvasState]]()
            try:
                for part in parts:
                    items = batch.items[part]
                    waiting.append([item.canvas for item in items])
                    given = step_inputs(waiting[-1])
                    canvas_N, conditioning = given.canvas_N.to(self.device), given.self_conditioning_ND
                    cache = self._denoised(items)
                    under_way.append(self.stage.begin(canvas_N, given.widths, cache, conditioning, causal=False))
                # While the leader scores and draws for one, the other stages compute those behind it.
                while under_way:
                    found_ND = self.stage.end(under_way.popleft())
                    finish_step(self.model.vocabulary, waiting.popleft(), found_ND)
            finally:
                self.stage.drop(under_way)
