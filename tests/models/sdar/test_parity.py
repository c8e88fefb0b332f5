"""The masked family against transformers: logits of prompts and of canvases, along every path of the cache."""

from pathlib import Path

import pytest
import torch
from sdar_oracle import SdarReference, make_sdar_folder
from torch import Tensor

from gesso.models.family import BlockDiffusionModel, family_of, load_family

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(scope="module", params=["plain", "tied and biased", "blocks of 8"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[SdarReference, Path]:
    how = request.param
    folder = tmp_path_factory.mktemp("sdar")
    special = how.startswith("tied")
    make_sdar_folder(folder, block=8 if how.endswith("8") else 4, tied=special, bias=special, seed=3)
    return SdarReference(folder), folder


def load(folder: Path) -> BlockDiffusionModel:
    family = family_of(folder)
    assert family is not None
    return load_family(folder, family, "cpu", "float32")


def tokens(count: int, vocab: int, seed: int) -> Tensor:
    return torch.randint(3, vocab - 3, (count,), generator=torch.Generator().manual_seed(seed))


def same(ours: Tensor, theirs: Tensor, mask: int) -> None:
    assert ours[..., mask].max() < -1e29, "the mask is never proposed"
    kept = torch.arange(ours.shape[-1]) != mask
    torch.testing.assert_close(ours[..., kept], theirs[..., kept], **CLOSE)


def test_a_prompt_in_any_pieces_and_a_canvas_behind_it(both: tuple[SdarReference, Path]) -> None:
    reference, folder = both
    model, block = load(folder), reference.block
    for length, pieces in ((block, [block]), (23, [16, 7]), (23, [3, 1, 19]), (2, [2])):
        prompt = tokens(length, model.config.vocab_size, length)
        cache = model.new_cache(1)
        hidden = torch.cat([model.encode_flat(part, [len(part)], cache) for part in prompt.split(pieces)])
        assert cache.lengths == [length]
        width = block - length % block
        canvas = torch.full((width,), reference.mask)
        canvas[width // 2] = 5
        both_parts = torch.cat((prompt, canvas))
        theirs = reference.logits(both_parts[None])[0]
        ours = model.vocabulary.logits(model.denoise_flat(canvas, [width], cache))
        same(ours, theirs[length:], reference.mask)
        again = model.vocabulary.logits(model.denoise_flat(canvas, [width], cache))
        assert again.equal(ours), "denoising leaves the cache as it is"
        whole = length // block * block
        if pieces in ([block], [16, 7]):  # pieces of whole blocks, as the engine cuts: hidden states are final
            same(model.vocabulary.logits(hidden)[:whole], theirs[:whole], reference.mask)


def test_a_canvas_may_reach_over_blocks(both: tuple[SdarReference, Path]) -> None:
    reference, folder = both
    model = load(folder)
    prompt, canvas = tokens(6, model.config.vocab_size, 1), torch.full((2 * reference.block,), reference.mask)
    cache = model.new_cache(1)
    model.encode_flat(prompt, [6], cache)
    ours = model.vocabulary.logits(model.denoise_flat(canvas, [len(canvas)], cache))
    same(ours, reference.logits(torch.cat((prompt, canvas))[None])[0, 6:], reference.mask)


def test_rows_of_a_batch_do_not_see_each_other(both: tuple[SdarReference, Path]) -> None:
    reference, folder = both
    model = load(folder)
    prompts = [tokens(count, model.config.vocab_size, count) for count in (9, 4, 14)]
    cache = model.new_cache(3)
    model.encode_flat(torch.cat(prompts), [9, 4, 14], cache)
    canvases = [torch.full((width,), reference.mask) for width in (1, 4, 2)]
    hidden = model.denoise_flat(torch.cat(canvases), [1, 4, 2], cache).split([1, 4, 2])
    for prompt, canvas, found in zip(prompts, canvases, hidden, strict=True):
        theirs = reference.logits(torch.cat((prompt, canvas))[None])[0, len(prompt) :]
        same(model.vocabulary.logits(found), theirs, reference.mask)
        alone = model.new_cache(1)
        model.encode_flat(prompt, [len(prompt)], alone)
        assert found.equal(model.denoise_flat(canvas, [len(canvas)], alone))


def test_the_pass_over_the_vocabulary_is_the_softmax_of_the_logits(both: tuple[SdarReference, Path]) -> None:
    reference, folder = both
    model = load(folder)
    hidden = torch.randn(40, 24, generator=torch.Generator().manual_seed(0))
    logits, mask = model.vocabulary.logits(hidden).double(), reference.mask
    temperature, uniform = torch.full((40,), 0.7), torch.linspace(0, 0.999, 40)
    found = model.vocabulary.predict(hidden, temperature, uniform)
    shares = (logits / 0.7).softmax(dim=-1)
    assert found.argmax_N.equal(shares.argmax(dim=-1))
    torch.testing.assert_close(found.entropy_N.double(), torch.special.entr(shares).sum(dim=-1), **CLOSE)
    cumulative = shares.cumsum(dim=-1)
    at = (cumulative <= uniform[:, None].double() * cumulative[:, -1:]).sum(dim=-1)
    assert (found.sample_N == at).float().mean() > 0.9  # a number near a border may fall on its other side
    assert not (found.sample_N == mask).any()
    own = model.vocabulary.log_probs_of(found.sample_N, hidden, temperature, found.normaliser_N)
    torch.testing.assert_close(own.double(), shares.log().gather(1, found.sample_N[:, None])[:, 0], **CLOSE)
    assert found.embedding_ND.shape == (40, 0)
