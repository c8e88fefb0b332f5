"""Makes the fused softmax pass of few rows over a packed table: all scores first, then every chunk at once.

For a token or a few, calls cost more than arithmetic: a chunk of the table at a time takes some forty calls for every
2,048 tokens. Here sums are taken in the same order, of the same numbers, so that a row's bits do not depend on which of
the two passes it was in.

    N positions   V vocabulary   K chunks   C tokens of a chunk   B blocks
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from gesso.kernels import SoftmaxPass
from gesso.nn.elementwise import LOWEST, drop_faint_
from gesso.nn.vocabulary import BLOCK, Vocabulary

FEW_ROWS = 8
"""Rows whose scores are held: of 262,144 tokens 8 MiB."""


def softmax_pass_of_few(vocabulary: Vocabulary, hidden_ND: Tensor, inverse_N1: Tensor) -> SoftmaxPass:
    """Computes `Vocabulary._softmax_pass` without the mixture."""
    from gesso.kernels.host.library import norms

    rows, device = len(hidden_ND), hidden_ND.device
    chunk = vocabulary.chunk(device)
    scores_NV = vocabulary.slice(0, vocabulary.size).scores(hidden_ND).float()
    whole = vocabulary.size // chunk * chunk
    parts = [scores_NV[:, :whole].reshape(rows, -1, chunk)] if whole else []
    if rest := vocabulary.size - whole:
        parts.append(F.pad(scores_NV[:, whole:], (0, -rest % BLOCK)).contiguous()[:, None])
    maximum_N1 = torch.full((rows, 1), torch.finfo(torch.float32).min / 2, dtype=torch.float32, device=device)
    total_N1, weighted_N1 = torch.zeros(2, rows, 1, dtype=torch.float32, device=device)
    argmax_N1 = torch.zeros(rows, 1, dtype=torch.int64, device=device)
    sums, references, first = list[Tensor](), list[Tensor](), 0
    for part_NKC in parts:
        count = min(vocabulary.size - first, chunk)
        z_NKC = vocabulary.cap_(part_NKC.flatten(1)).mul_(inverse_N1).view(part_NKC.shape)
        z_NKC[:, :, count:] = LOWEST
        top_NK, index_NK = z_NKC.max(dim=-1)
        # The running maximum, what it was before each chunk, and whose token it is: the first that has it.
        running_NK = torch.maximum(top_NK.cummax(dim=-1).values, maximum_N1)
        before_NK = torch.cat((maximum_N1, running_NK[:, :-1]), dim=-1)
        shift_NK = before_NK - running_NK
        shrink_NK = shift_NK.exp()
        numbers = torch.arange(z_NKC.shape[1], device=device)
        chunks, starts = top_NK > before_NK, numbers * chunk + first
        newest_N1 = torch.where(chunks, numbers, -1).amax(dim=-1, keepdim=True)
        found_N1 = (index_NK + starts).gather(1, newest_N1.clamp(min=0))
        argmax_N1 = torch.where(newest_N1 >= 0, found_N1, argmax_N1)
        p_NKC = drop_faint_(z_NKC.sub_(running_NK[:, :, None])).exp()
        blocks_NKB = p_NKC.unflatten(2, (-1, BLOCK)).sum(dim=-1)
        mass_NK, heat_NK = blocks_NKB.sum(dim=-1), z_NKC.mul_(p_NKC).sum(dim=-1)
        terms = [term.contiguous() for term in (shift_NK, shrink_NK, mass_NK, heat_NK)]
        norms().fold(*(term.data_ptr() for term in (*terms, total_N1, weighted_N1)), 0, rows, z_NKC.shape[1])
        maximum_N1 = running_NK[:, -1:]
        sums.append(blocks_NKB.flatten(1))
        references.append(running_NK[:, :, None].expand_as(blocks_NKB).flatten(1))
        first += z_NKC.shape[1] * chunk
    mass_NB = torch.cat(sums, dim=1) * (torch.cat(references, dim=1) - maximum_N1).exp_()
    mixed_ND = torch.zeros(rows, 0, dtype=torch.float32, device=device)
    return SoftmaxPass(mass_NB, maximum_N1, total_N1, weighted_N1, argmax_N1, mixed_ND)
