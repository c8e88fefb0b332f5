"""Defines the layers: they know tensors, not diffusion and not checkpoints.

Shape suffixes used in this package:
    N tokens of all sequences laid flat    T tokens of one sequence    S keys a query may see
    D hidden    H query heads    G key/value heads    K head dimension    V vocabulary
    E experts   k experts of a token       F feed-forward width
"""
