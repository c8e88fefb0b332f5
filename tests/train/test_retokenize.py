"""Weights under another tokenizer: a token of the same text keeps its row, any other begins near its spelling."""

import torch
from tests.oracle import Shape, random_model

from gesso.tasks.spelled import build_tokenizer, whole_words
from gesso.tasks.vocabulary import build_tokenizer as build_first
from gesso.text.tokenizer import Tokenizer
from gesso.train.retokenize import NOISE, retokenize


def test_rows_go_with_their_texts() -> None:
    before, built = Tokenizer(build_first()), build_tokenizer()
    after = Tokenizer(build_tokenizer())
    model = random_model(Shape(vocab=before.size))
    made = retokenize(model, before, built)
    old, new = model.vocabulary.weight, made.vocabulary.weight
    assert made.config.vocab_size == len(new) == after.size
    for text in ("<bos>", "<turn|>", "fig", ", ", "a", "Z", "7", " ", "{"):
        (was,), (now,) = before.encode(text), after.encode(text)
        assert torch.equal(old[was], new[now]), text
    several = next(text for text in whole_words() if len(before.encode(text)) > 1)
    (now,) = after.encode(several)
    mean = old[before.encode(several)].mean(dim=0)
    distance = (new[now] - mean).square().mean().sqrt() / old.std()
    assert 0 < distance < 2 * NOISE
    assert len(new.unique(dim=0)) == len(new)


def test_all_other_weights_are_the_same() -> None:
    before = Tokenizer(build_first())
    model = random_model(Shape(vocab=before.size))
    made = retokenize(model, before, build_tokenizer()).state_dict()
    for name, tensor in model.state_dict().items():
        if name != "vocabulary.weight":
            assert torch.equal(tensor, made[name]), name
