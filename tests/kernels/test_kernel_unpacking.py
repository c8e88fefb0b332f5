"""What takes words of packed weights apart in PTX, by what its instructions are defined to do: no GPU is needed."""

import math
import re

import pytest
import torch

from gesso.nn.quant.nf4 import LEVELS

pytest.importorskip("triton")

from gesso.kernels import unpacking

WORDS = torch.randint(0, 1 << 32, (2000,), generator=torch.Generator().manual_seed(0)).tolist()
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def number(text: str, registers: dict[str, int]) -> int:
    return registers[text] if text in registers else int(text, 0)


def picked(low: int, high: int, picks: int) -> int:
    """What `prmt` computes."""
    pool = low.to_bytes(4, "little") + high.to_bytes(4, "little")
    out = bytearray()
    for place in range(4):
        pick = picks >> 4 * place & 15
        byte = pool[pick & 7]
        out.append((255 if byte & 128 else 0) if pick & 8 else byte)
    return int.from_bytes(out, "little")


def computed(name: str, table: str, a: int, b: int = 0, c: int = 0) -> int:
    """What an instruction makes of its operands; `table` is a `lop3`'s."""
    match name.removesuffix(".b32"), table:
        case "mov", _:
            return a
        case "shl", _:
            return a << b & 0xFFFFFFFF
        case "shr", _:
            return a >> b
        case "and", _:
            return a & b
        case "prmt", _:
            return picked(a, b, c)
        case "lop3", "0xEA":
            return a & b | c
        case "lop3", "0xD8":
            return c & b | ~c & a
    raise NotImplementedError(name)


def run(code: str, count: int, word: int) -> list[int]:
    """Runs lines of PTX: `word` goes into the register behind those of `count` results."""
    registers = {f"${count}": word}
    for line in re.sub(r"[{}]|\.reg[^;]*;", "", code).split(";"):
        if not line.strip():
            continue
        name, places = line.split(maxsplit=1)
        into, *texts = (place.strip() for place in places.split(","))
        table = texts.pop() if name.startswith("lop3") else ""
        registers[into] = computed(name, table, *(number(text, registers) for text in texts))
    return [registers[f"${place}"] for place in range(count)]


def numbers(code: str, count: int, word: int) -> list[list[float]]:
    """What is made of the lower and of the upper 16 bits, both as bfloat16, place by place."""
    halves = [[made >> shift & 0xFFFF for made in run(code, count, word)] for shift in (0, 16)]
    return torch.tensor(halves, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).tolist()


def bytes_of(word: int) -> list[list[int]]:
    low, high = (list((word >> shift & 0xFFFF).to_bytes(2, "little")) for shift in (0, 16))
    return [low, high]


def codes_of(word: int) -> list[list[int]]:
    return [[byte >> shift & 15 for byte in half for shift in (0, 4)] for half in bytes_of(word)]


@pytest.mark.parametrize("word", [0, 0xFFFFFFFF])
def test_words_of_one_bit_repeated(word: int) -> None:
    assert numbers(unpacking.UINT4.value, 4, word) == [[128.0 + (word & 15)] * 4] * 2


def test_numbers_of_four_bits() -> None:
    levels = LEVELS.bfloat16().tolist()
    for word in WORDS:
        codes = codes_of(word)
        assert numbers(unpacking.UINT4.value, 4, word) == [[128.0 + code for code in half] for half in codes]
        assert numbers(unpacking.NF4.value, 4, word) == [[levels[code] for code in half] for half in codes]
        tiny = numbers(unpacking.E2M1.value, 4, word)
        expected = [[math.copysign(E2M1[code & 7], -(code & 8) or 1) for code in half] for half in codes]
        assert [[x * unpacking.TINY_E2M1.value for x in half] for half in tiny] == expected


def test_numbers_of_eight_bits() -> None:
    for word in WORDS:
        signed = [[byte - (byte & 128) * 2 for byte in half] for half in bytes_of(word)]
        found = numbers(unpacking.INT8.value, 4, word)
        assert [[a - b, c - d] for a, b, c, d in found] == signed
        tiny = numbers(unpacking.E4M3.value, 2, word)
        for half, made in zip(bytes_of(word), tiny, strict=True):
            expected = torch.tensor(half, dtype=torch.uint8).view(torch.float8_e4m3fn).tolist()
            for byte, x, y in zip(half, expected, made, strict=True):
                assert x == y * unpacking.TINY_E4M3.value or byte & 127 == 127  # not a number, which is never made
