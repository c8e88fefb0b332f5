"""Implements Muon: matrices take their momentum with all singular values made alike, everything else takes AdamW.

A gradient of a matrix is mostly a few directions; made orthogonal, the rare ones are learned as fast as the common
ones. The update is brought to the size that AdamW's has, so that one learning rate serves both kinds of parameters.
Experts are stacks of matrices, each made orthogonal by itself. (Jordan et al. 2024, "Muon: an optimizer for hidden
layers"; the scale: Liu et al. 2025, arXiv 2502.16982. `torch.optim.Muon` takes no stacks.)
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of X <- aX + b(XX')X + c(XX')²X, chosen for the steepest rise of small singular values."""
ROUNDS = 5
SMALL = 1 << 20
"""Numbers of a matrix, or of a stack of them, up to which it shares a stack with others."""
ADAMW_SIZE = 0.2
"""Root mean square of AdamW's usual update, as a share of the learning rate."""


def orthogonal(matrix: Tensor) -> Tensor:
    """Returns the nearest matrix whose singular values are all about 1 (0.7 to 1.2), of each matrix [..., m, n] by
    itself."""
    a, b, c = NEWTON_SCHULZ
    x: Tensor = matrix.mT if matrix.shape[-2] > matrix.shape[-1] else matrix
    x = (x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)).contiguous()
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = _add_product(x, _add_product(gram, gram, gram, b, c), x, a, 1.0)
    return x.mT if matrix.shape[-2] > matrix.shape[-1] else x


def orthogonal_by_shape(matrices: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Returns what `orthogonal` makes of each, computed in `dtype`, small ones of one shape at once: a GPU takes longer
    to be told of a small matrix than to multiply it."""
    alike: dict[tuple[torch.Size, int], list[int]] = defaultdict(list)
    for number, matrix in enumerate(matrices):
        own = number if matrix.numel() > SMALL else -1
        alike[matrix.shape, own].append(number)
    found = list(matrices)
    for numbers in alike.values():
        stack = torch.stack([matrices[number] for number in numbers])
        for number, update in zip(numbers, orthogonal(stack.to(dtype)).to(stack.dtype), strict=True):
            found[number] = update
    return found


def _add_product(x: Tensor, left: Tensor, right: Tensor, beta: float, alpha: float) -> Tensor:
    """Computes beta * x + alpha * left @ right; on a CPU by one call, of matrices or of stacks of them."""
    if type(x) is not Tensor or x.device.type != "cpu" or x.dim() > 3:
        return beta * x + alpha * left @ right
    call = torch.addmm if x.dim() == 2 else torch.baddbmm
    return call(x, left, right, beta=beta, alpha=alpha)


class Muon(torch.optim.AdamW):
    """Takes Muon's steps for the groups that have a `momentum`, fused AdamW's for those whose `momentum` is None.

    Args:
        groups: of one parameter each, with `momentum` and `weight_decay`.
        betas: AdamW's.
        dtype: what the matrices are made orthogonal in.
        rank, size: this process among those that hold the same parameters and gradients: each makes its share of the
            matrices orthogonal, for all.
    """

    def __init__(
        self, groups: list[dict[str, Any]], betas: tuple[float, float], dtype: torch.dtype, rank: int = 0, size: int = 1
    ) -> None:
        super().__init__(groups, lr=0.0, betas=betas, foreach=False, fused=True)
        self.dtype, self.rank, self.size = dtype, rank, size

    def __setstate__(self, state: dict[str, Any]) -> None:
        # AdamW's would look for its own numbers in every parameter's state.
        torch.optim.Optimizer.__setstate__(self, state)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Takes one step. The matrices' gradients are used up: AdamW, which comes second, passes over what has none."""
        matrices = [
            (parameter, group)
            for group in self.param_groups
            if group["momentum"] is not None
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        if matrices:
            parameters, groups = zip(*matrices, strict=True)
            self._step_matrices(parameters, groups)
        whole, self.param_groups = self.param_groups, self._merged()
        try:
            return super().step(closure)
        finally:
            self.param_groups = whole

    def _merged(self) -> list[dict[str, Any]]:
        """Returns AdamW's groups, those alike in one: a GPU is told of each."""
        merged: dict[tuple[Any, ...], dict[str, Any]] = {}
        for group in self.param_groups:
            if group["momentum"] is None:
                settings = {name: value for name, value in group.items() if name != "params"}
                parameters = merged.setdefault(tuple(settings.values()), {**settings, "params": []})["params"]
                parameters += group["params"]
        return list(merged.values())

    def _step_matrices(self, parameters: tuple[nn.Parameter, ...], groups: tuple[dict[str, Any], ...]) -> None:
        """Takes the matrices' steps, of all at once: a GPU takes longer to be told of each than to compute it."""
        updates = self._orthogonal(self._ahead(parameters, groups))
        rates = [
            -group["lr"] * ADAMW_SIZE * max(p.shape[-2:]) ** 0.5 for p, group in zip(parameters, groups, strict=True)
        ]
        torch._foreach_mul_(parameters, [1 - group["lr"] * group["weight_decay"] for group in groups])
        torch._foreach_mul_(updates, rates)
        torch._foreach_add_(parameters, updates)
        for parameter in parameters:
            parameter.grad = None

    def _ahead(self, parameters: tuple[nn.Parameter, ...], groups: tuple[dict[str, Any], ...]) -> list[Tensor]:
        """The momenta with the newest gradients, which Nesterov counts once more."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        momenta = [self.state[parameter]["momentum"] for parameter in parameters]
        betas = [group["momentum"] for group in groups]
        torch._foreach_lerp_(momenta, gradients, [1 - beta for beta in betas])
        ahead: list[Tensor] = list(torch._foreach_lerp(gradients, momenta, betas))
        return ahead

    def _orthogonal(self, matrices: list[Tensor]) -> list[Tensor]:
        if self.size == 1:
            if all(type(matrix) is Tensor and matrix.is_cuda for matrix in matrices):
                return orthogonal_by_shape(matrices, self.dtype)
            return [orthogonal(matrix.to(self.dtype)).to(matrix.dtype) for matrix in matrices]
        flat = torch.zeros(sum(matrix.numel() for matrix in matrices), device=matrices[0].device)
        updates = [
            part.view_as(matrix)
            for part, matrix in zip(flat.split([matrix.numel() for matrix in matrices]), matrices, strict=True)
        ]
        for number in range(self.rank, len(matrices), self.size):
            updates[number].copy_(orthogonal(matrices[number].to(self.dtype)))
        dist.all_reduce(flat)  # the others' are zeros here
        return updates


def is_hidden_matrix(name: str, parameter: nn.Parameter) -> bool:
    """Says whether Muon takes the parameter: a map from hidden state to hidden state, or a stack of them.

    Embeddings, which are also the head, positions of patches and routers are tables of directions, not maps; a tower's
    first projection reads pixels.
    """
    tables = ("vocabulary", ".router.", "position_table", "tower.input_proj")
    return parameter.dim() > 1 and not any(table in name for table in tables)
