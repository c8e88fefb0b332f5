"""Names the words of a piece: rows of activations that one matrix multiplies (see `pieces`)."""

from gesso.kernels.host.llvm_ir import Value, Writer, constant

ROW, SIZE, MATRIX, OUT = range(4)
"""The first row of activations, how many there are, the matrix, and the first row of what comes out."""


def word_of(build: Writer, piece: Value, word: int) -> Value:
    """Returns where a word of a piece stands."""
    return build.add(build.mul(piece, constant(4)), constant(word))
