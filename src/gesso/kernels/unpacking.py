"""Turns words of packed weights into numbers, inside of kernels.

Codes are read as words of 16 bits, of which a register holds two: what moves bits moves those of two words at once. A
word has two codes of 8 bits or four of 4, and each place of a word makes a matrix of its own, so no number has to
change its thread. In bfloat16 an instruction makes two numbers; Triton would take words apart before it moves their
bits, hence the lines of PTX. In other types, and in the interpreter, the same is written in Triton.

Numbers are put together from bits, beside those of a large number or of a small power of two: that takes fewer
instructions than converting them.
"""

import triton
import triton.language as tl

TINY_E4M3 = tl.constexpr(2.0**120)
"""What an e4m3 number's bits have to be multiplied by where they stand for a bfloat16."""
TINY_E2M1 = tl.constexpr(2.0**126)
"""The same of an e2m1 number."""

# In PTX a lop3 with 0xEA is (a & b) | c.
INT8 = tl.constexpr("""{
.reg .b32 word, near;
mov.b32 near, 0x43004300;
lop3.b32 $0, $4, 0x007f007f, near, 0xEA;
lop3.b32 $1, $4, 0x00800080, near, 0xEA;
shr.b32 word, $4, 8;
lop3.b32 $2, word, 0x007f007f, near, 0xEA;
lop3.b32 $3, word, 0x00800080, near, 0xEA;
}""")
E4M3 = tl.constexpr("""{
.reg .b32 sign, rest;
shl.b32 sign, $2, 8;
and.b32 sign, sign, 0x80008000;
shl.b32 rest, $2, 4;
lop3.b32 $0, rest, 0x07f007f0, sign, 0xEA;
and.b32 sign, $2, 0x80008000;
shr.b32 rest, $2, 4;
lop3.b32 $1, rest, 0x07f007f0, sign, 0xEA;
}""")
UINT4 = tl.constexpr("""{
.reg .b32 word, near;
mov.b32 near, 0x43004300;
lop3.b32 $0, $4, 0x000f000f, near, 0xEA;
shr.b32 word, $4, 4;
lop3.b32 $1, word, 0x000f000f, near, 0xEA;
shr.b32 word, $4, 8;
lop3.b32 $2, word, 0x000f000f, near, 0xEA;
shr.b32 word, $4, 12;
lop3.b32 $3, word, 0x000f000f, near, 0xEA;
}""")
E2M1 = tl.constexpr("""{
.reg .b32 sign, rest;
shl.b32 sign, $4, 12;
and.b32 sign, sign, 0x80008000;
shl.b32 rest, $4, 6;
lop3.b32 $0, rest, 0x01c001c0, sign, 0xEA;
shl.b32 sign, $4, 8;
and.b32 sign, sign, 0x80008000;
shl.b32 rest, $4, 2;
lop3.b32 $1, rest, 0x01c001c0, sign, 0xEA;
shl.b32 sign, $4, 4;
and.b32 sign, sign, 0x80008000;
shr.b32 rest, $4, 2;
lop3.b32 $2, rest, 0x01c001c0, sign, 0xEA;
and.b32 sign, $4, 0x80008000;
shr.b32 rest, $4, 6;
lop3.b32 $3, rest, 0x01c001c0, sign, 0xEA;
}""")
NF4 = tl.constexpr("""{
.reg .b32 code, high, far, near0, near1, far0, far1, pair0, pair1;
and.b32 code, $4, 0x77777777;
shr.b32 high, $4, 3;
and.b32 high, high, 0x11111111;
prmt.b32 far, 0x0000ff00, 0, high;
prmt.b32 near0, 0xca063280, 0x00ba3d92, code;
prmt.b32 far0, 0xad7c25a3, 0x803910e2, code;
lop3.b32 near0, near0, far0, far, 0xD8;
prmt.b32 near1, 0xbebfbfbf, 0x00bdbebe, code;
prmt.b32 far1, 0x3e3e3e3d, 0x3f3f3f3e, code;
lop3.b32 near1, near1, far1, far, 0xD8;
prmt.b32 pair0, near0, near1, 0x5140;
prmt.b32 pair1, near0, near1, 0x7362;
shr.b32 code, code, 16;
shr.b32 high, high, 16;
prmt.b32 far, 0x0000ff00, 0, high;
prmt.b32 near0, 0xca063280, 0x00ba3d92, code;
prmt.b32 far0, 0xad7c25a3, 0x803910e2, code;
lop3.b32 near0, near0, far0, far, 0xD8;
prmt.b32 near1, 0xbebfbfbf, 0x00bdbebe, code;
prmt.b32 far1, 0x3e3e3e3d, 0x3f3f3f3e, code;
lop3.b32 near1, near1, far1, far, 0xD8;
prmt.b32 far0, near0, near1, 0x5140;
prmt.b32 far1, near0, near1, 0x7362;
prmt.b32 $0, pair0, far0, 0x5410;
prmt.b32 $1, pair0, far0, 0x7632;
prmt.b32 $2, pair1, far1, 0x5410;
prmt.b32 $3, pair1, far1, 0x7632;
}""")
"""Looks four codes up at once: the low bytes of their levels, then the high ones, each in the first eight levels and in
the last eight, of which a code's highest bit tells; 0xD8 takes one or the other."""


@triton.jit
def bytes_of(words, NAME: tl.constexpr, made: tl.constexpr):
    """Returns the numbers in the low and the high bytes of words, in type `made`."""
    if NAME == "int8":
        # A byte is its low seven bits less 128 times its highest: 128 + low less 128 or 256.
        if made == tl.bfloat16:
            a, b, c, d = _apart(words, INT8)
        else:
            high = words >> 8
            a, b = _number(words & 127 | 0x4300, made), _number(words & 128 | 0x4300, made)
            c, d = _number(high & 127 | 0x4300, made), _number(high & 128 | 0x4300, made)
        first, second = a - b, c - d
    else:
        if made == tl.bfloat16:
            first, second = tl.inline_asm_elementwise(
                E4M3, "=r,=r,r", [words], dtype=(tl.bfloat16, tl.bfloat16), is_pure=True, pack=2
            )
        else:
            first = _number((words << 8) & -0x8000 | (words << 4) & 0x7F0, made)
            second = _number(words & -0x8000 | (words >> 4) & 0x7F0, made)
        first, second = first * TINY_E4M3, second * TINY_E4M3
    return first, second


@triton.jit
def halves_of_bytes(words, scale, offset, levels, NAME: tl.constexpr, SHARED: tl.constexpr, made: tl.constexpr):
    """Returns the numbers in the four places of words, the lowest bits first, times their scales and with their
    offsets, in type `made`; words that stand side by side share a scale, `SHARED` of them."""
    if NAME == "int4":
        if made == tl.bfloat16:
            a, b, c, d = _apart(words, UINT4)
        else:
            a, b = _number(words & 15 | 0x4300, made), _number((words >> 4) & 15 | 0x4300, made)
            c, d = _number((words >> 8) & 15 | 0x4300, made), _number((words >> 12) & 15 | 0x4300, made)
        scale, offset = _repeat(scale.to(made), SHARED), _repeat(offset.to(made), SHARED)
        a, b = (a - 128.0) * scale + offset, (b - 128.0) * scale + offset
        c, d = (c - 128.0) * scale + offset, (d - 128.0) * scale + offset
    elif NAME == "nf4":
        if made == tl.bfloat16:
            a, b, c, d = _apart(words, NF4)
        else:
            a, b = tl.load(levels + (words & 15)).to(made), tl.load(levels + ((words >> 4) & 15)).to(made)
            c, d = tl.load(levels + ((words >> 8) & 15)).to(made), tl.load(levels + ((words >> 12) & 15)).to(made)
        scale = _repeat(scale.to(made), SHARED)
        a, b, c, d = a * scale, b * scale, c * scale, d * scale
    else:
        if made == tl.bfloat16:
            a, b, c, d = _apart(words, E2M1)
        else:
            a = _number((words << 12) & -0x8000 | (words << 6) & 0x1C0, made)
            b = _number((words << 8) & -0x8000 | (words << 2) & 0x1C0, made)
            c = _number((words << 4) & -0x8000 | (words >> 2) & 0x1C0, made)
            d = _number(words & -0x8000 | (words >> 6) & 0x1C0, made)
        # As large as they are first: a small scale would leave no digits of numbers so small.
        scale = _repeat(e4m3(scale, made), SHARED)
        a, b, c, d = a * TINY_E2M1, b * TINY_E2M1, c * TINY_E2M1, d * TINY_E2M1
        a, b, c, d = a * scale, b * scale, c * scale, d * scale
    return a, b, c, d


@triton.jit
def _apart(words, CODE: tl.constexpr):
    """Returns the four bfloat16 numbers that lines of PTX make of every word."""
    a, b, c, d = tl.inline_asm_elementwise(
        CODE,
        "=r,=r,=r,=r,r",
        [words],
        dtype=(tl.bfloat16, tl.bfloat16, tl.bfloat16, tl.bfloat16),
        is_pure=True,
        pack=2,
    )
    return a, b, c, d


@triton.jit
def e4m3(code, made: tl.constexpr):
    """Returns the numbers of bytes. As bits of a bfloat16 they stand for 2**-120 times what they do here. There is no
    not-a-number."""
    return _number((code.to(tl.int16) << 4) & -0x7810, made) * TINY_E4M3


@triton.jit
def _repeat(x, TIMES: tl.constexpr):
    """Every column of x [N, G] so many times, [N, G * TIMES]."""
    wide = tl.broadcast_to(x[:, :, None], (x.shape[0], x.shape[1], TIMES))
    return tl.reshape(wide, (x.shape[0], x.shape[1] * TIMES))


@triton.jit
def _number(bits, made: tl.constexpr):
    """Returns the numbers of a bfloat16's bits."""
    if made == tl.bfloat16:
        x = bits.to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        x = (bits.to(tl.int32) << 16).to(tl.float32, bitcast=True)
    return x
