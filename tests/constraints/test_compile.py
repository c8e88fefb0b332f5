"""Token automata of patterns, with three kinds of tokenizers."""

import gc
import random
import re

import pytest
import tokenizers
import torch
from thorough import cases
from tokenizers import decoders, models

from constraints.generated import make_regex, make_text
from gesso.constraints import compile as module
from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.budget import Budget
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.compile import compile_constraint, submit
from gesso.constraints.expression import Fitting
from gesso.constraints.held_bytes import held_bytes
from gesso.constraints.inference import Lattice
from gesso.constraints.regex import parse
from gesso.constraints.token_text import token_bytes
from gesso.constraints.tokens import token_automaton
from gesso.constraints.vocabulary_tree import VocabularyTree
from gesso.errors import OptionError, TextError
from gesso.text.tokenizer import TokenIds, Tokenizer

MINI_ENDS = (1, 6)


def text_of(tokenizer: Tokenizer, tokens: list[int], ends: tuple[int, ...]) -> str:
    """What stands before the end."""
    place = next(place for place, token in enumerate(tokens) if token in ends)
    assert set(tokens[place + 1 :]) <= {ends[0]}
    return tokenizer.decode(tokens[:place])


def drawn(automaton: TokenAutomaton, width: int, budget: int, seed: int, scale: float = 5.0) -> list[int]:
    """The best canvas under random scores, completed the shortest way."""
    lattice = Lattice(automaton)
    scores = scale * torch.randn(width, automaton.vocab_size, generator=torch.Generator().manual_seed(seed))
    found = lattice.posterior(lattice.emissions(scores), automaton.start, budget)
    rest = automaton.completion(automaton.advance(automaton.start, found.canvas_C.tolist()))
    assert len(rest) <= budget
    return [*found.canvas_C.tolist(), *rest]


def test_tokens_spell_what_the_tokenizer_decodes(mini: Tokenizer, fallback: Tokenizer, byte_level: Tokenizer) -> None:
    generator = random.Random(0)
    for tokenizer in (mini, fallback, byte_level):
        texts = token_bytes(tokenizer)
        assert {index for index, text in enumerate(texts) if text is None} == tokenizer.special_ids
        plain = [index for index, text in enumerate(texts) if text is not None]
        for _ in range(300):
            tokens = generator.choices(plain, k=5)
            joined = b"".join(texts[token] or b"" for token in tokens)
            if "\ufffd" not in joined.decode(errors="replace"):
                assert tokenizer.decode(tokens) == joined.decode()
        for text in ("naïve 日本 a\tb ab", "b ab 😀"):
            if tokenizer is not byte_level:
                assert b"".join(texts[token] or b"" for token in tokenizer.encode(text)).decode() == text
    assert token_bytes(fallback)[3 + 0xE2] == b"\xe2"
    assert token_bytes(byte_level)[byte_level._tokenizer.token_to_id("Ġa")] == b" a"


def test_it_accepts_every_spelling_of_what_the_pattern_matches(mini: Tokenizer, fallback: Tokenizer) -> None:
    generator = random.Random(1)
    accepted = 0
    for _ in range(cases(40, 300)):
        pattern = make_regex(generator)
        for tokenizer, ends in ((mini, MINI_ENDS), (fallback, (2,))):
            texts = token_bytes(tokenizer)
            try:
                automaton = compile_constraint(pattern, tokenizer, ends)
            except OptionError:
                continue
            expected = compile_bytes(parse(pattern))
            for _ in range(30):
                text = make_text(generator)
                tokens = random_spelling(text.encode(), texts, generator)
                if tokens is None:
                    continue
                state = automaton.advance(automaton.start, tokens)
                matches = state >= 0 and bool(automaton.accepting_S[state])
                assert matches == expected.matches(text), (pattern, text, tokens)
                accepted += matches
    assert accepted > cases(20, 150)


def random_spelling(text: bytes, texts: list[bytes | None], generator: random.Random) -> list[int] | None:
    tokens = []
    while text:
        fitting = [index for index, piece in enumerate(texts) if piece and text.startswith(piece)]
        if not fitting:
            return None
        tokens.append(generator.choice(fitting))
        text = text[len(texts[tokens[-1]] or b"") :]
    return tokens


def test_best_canvases_match_in_full(mini: Tokenizer, fallback: Tokenizer, byte_level: Tokenizer) -> None:
    generator = random.Random(2)
    tokenizers_and_ends = [(mini, MINI_ENDS), (fallback, (2,)), (byte_level, (byte_level.special["<end>"],))]
    done = 0
    while done < cases(60, 300):
        pattern = make_regex(generator, depth=4)
        tokenizer, ends = generator.choice(tokenizers_and_ends)
        try:
            automaton = compile_constraint(pattern, tokenizer, ends)
        except OptionError:
            continue
        done += 1
        extra = generator.randint(0, 12)
        for width, budget in ((automaton.shortest, 0), (automaton.shortest + extra, 0), (2, automaton.shortest)):
            tokens = drawn(automaton, width, budget, seed=done)
            assert re.fullmatch(pattern, text_of(tokenizer, tokens, ends)), pattern


def test_a_character_may_be_spelled_in_bytes(fallback: Tokenizer) -> None:
    automaton = compile_constraint("日?é|z", fallback, (2,))
    first, second = 3 + 0xC3, 3 + 0xA9
    assert automaton.accepting_S[automaton.advance(automaton.start, [first, second])]
    assert automaton.advance(automaton.start, [second]) < 0
    assert automaton.advance(automaton.start, [first, 3 + 0x41]) < 0
    tokens = [3 + byte for byte in "日é".encode()]
    assert automaton.accepting_S[automaton.advance(automaton.start, tokens)]


def test_special_tokens_are_never_part_of_the_text(mini: Tokenizer) -> None:
    automaton = compile_constraint("(.|\n)*", mini, MINI_ENDS)
    assert {index for index in mini.special_ids if automaton.class_V[index] >= 0} == set(MINI_ENDS)
    assert automaton.shortest == 1


def test_a_model_may_score_more_tokens_than_there_are(mini: Tokenizer) -> None:
    automaton = compile_constraint("a+", mini, MINI_ENDS, vocab_size=2048)
    assert automaton.vocab_size == 2048
    assert automaton.class_V[mini.size :].max() == -1


def test_what_is_remembered_is_bounded_by_bytes(fallback: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHE_BYTES", 100_000)
    own = Tokenizer(fallback._tokenizer)
    patterns = [f"a{{{count}}}b" for count in range(1, 60)]
    sizes = [held_bytes(compile_constraint(pattern, own, (2,))) for pattern in patterns]
    kept = module._compilers[own].automata
    assert sum(sizes) > kept.max_bytes
    assert 0 < kept.stats.bytes <= kept.max_bytes
    assert module.automata_stats().bytes >= kept.stats.bytes
    assert compile_constraint(patterns[-1], own, (2,)) is compile_constraint(patterns[-1], own, (2,))
    before = kept.stats.misses
    compile_constraint(patterns[0], own, (2,))
    assert kept.stats.misses == before + 1


def test_it_is_remembered_per_tokenizer_and_constraint(mini: Tokenizer, fallback: Tokenizer) -> None:
    one = compile_constraint("ab+", mini, MINI_ENDS)
    assert compile_constraint("ab+", mini, MINI_ENDS) is one
    assert compile_constraint(parse("ab+"), mini, MINI_ENDS) is not one
    assert compile_constraint("ab+", mini, (1,)) is not one
    assert compile_constraint("ab+", fallback, (2,)) is not one
    stray = Tokenizer(mini._tokenizer)
    compile_constraint("a", stray, MINI_ENDS)
    gc.collect()
    before = len(module._compilers)
    del stray
    gc.collect()
    assert len(module._compilers) == before - 1


def test_what_cannot_be_spelled_or_is_too_large_is_refused(mini: Tokenizer) -> None:
    with pytest.raises(OptionError, match="no text that this vocabulary can spell"):
        compile_constraint("a^b", mini, MINI_ENDS)
    texts = [b"a", b"bb", None, b"", b"ab"]
    tree = VocabularyTree.build(texts)
    assert token_automaton(compile_bytes(parse("(a|b)+")), tree, [2]).class_V.tolist()[3] == -1
    with pytest.raises(OptionError, match="can spell"):
        token_automaton(compile_bytes(parse("b")), tree, [2])
    with pytest.raises(OptionError, match="over this vocabulary it needs more than"):
        submit("(a|b)*a(a|b){7}", mini, MINI_ENDS, limits=Budget(max_bytes=1000)).result()


def test_tokenizers_whose_pieces_have_no_text_of_their_own_are_refused() -> None:
    with pytest.raises(TextError, match="has none"):
        token_bytes(TokenIds())
    for decoder, name in ((decoders.Metaspace(), "Metaspace"), (decoders.WordPiece(), "WordPiece"), (None, "none")):
        tokenizer = tokenizers.Tokenizer(models.BPE({"a": 0, "b": 1}, []))
        if decoder is not None:
            tokenizer.decoder = decoder
        with pytest.raises(TextError, match=f"decoder \\({name}\\)"):
            compile_constraint("a", Tokenizer(tokenizer), (1,))


def test_what_fits_in_bytes_and_not_in_tokens_goes_less_deep(mini: Tokenizer) -> None:
    large, small = parse("([a-z]{30} ){3}x|a"), parse("a")
    limits = Budget(max_bytes=1_000)
    with pytest.raises(OptionError, match="over this vocabulary"):
        submit(large, mini, MINI_ENDS, limits=limits).result()
    automaton = submit(Fitting((large, small), 20_000), mini, MINI_ENDS, limits=limits).result()
    assert automaton.shortest == submit(small, mini, MINI_ENDS).result().shortest
    assert automaton.states == submit(small, mini, MINI_ENDS).result().states
