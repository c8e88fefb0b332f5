"""Runs a stage that follows the leader's; see `gesso.ranks.follower`.

python -m gesso.pipeline_parallel.follower SOCKET
"""

from collections import deque
from pathlib import Path
from typing import Any

from gesso.models.adapter_switch import AdapterSwitch
from gesso.pipeline_parallel.loading import load_stage
from gesso.pipeline_parallel.model import StagedModel
from gesso.ranks.follower import Follower, run
from gesso.ranks.group import RankGroup, Sending
from gesso.ranks.processes import Rendezvous


class StageFollower(Follower):
    """Takes the hidden states of each micro-batch from the stage before, runs its layers and passes them on."""

    def __init__(self, model: StagedModel) -> None:
        super().__init__(model, AdapterSwitch(model))
        self.stage = model
        self._sendings: deque[Sending] = deque()
        self.actions |= {"run": self.run, "commit": self.commit, "times": self.times}

    def run(self, counts: list[int], numbers: list[int], rows: int, spans: list[Any], causal: bool) -> None:
        """Runs the stage's layers over a micro-batch."""
        group, cache = self.stage.group, self.rows(numbers)
        # A pass has as many micro-batches as there are stages at most: those before are of passes that are done.
        while len(self._sendings) > group.size:
            self._sendings.popleft().wait()
        x = group.take((rows, self.stage.config.hidden_size), self.stage.dtype)
        if causal:
            for number in numbers:
                self.taken.pop(number, None)
        self._sendings.append(group.pass_on(self.stage.run_stage(x, counts, cache, spans, causal=causal)))

    def commit(self, numbers: list[int], counts: list[int]) -> None:
        """Commits what a causal pass wrote."""
        for row, count in zip(self.rows(numbers).rows, counts, strict=True):
            row.commit(count)

    def times(self) -> None:
        """Answers with the seconds that micro-batches took here."""
        self.answer(list(self.stage.times))


def load(plan: Rendezvous, group: RankGroup) -> StageFollower:
    """Loads a stage."""
    return StageFollower(load_stage(Path(plan.folder), plan.dtype, plan.adapter, group))


if __name__ == "__main__":
    run(load)
