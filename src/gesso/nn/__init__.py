"""Defines the layers: they know tensors, not diffusion and not checkpoints.

Shape suffixes used in this package:
    N tokens of all sequences laid flat    T tokens of one sequence    S keys a query may see
    D hidden    H query heads    G key/value heads    K head dimension    V vocabulary
    E experts   k experts of a token       F feed-forward width

Norms: `norm`, `fused_norms`. Training kernels: `compiled_training` (where they serve), `training_norms`, `gated_gelu`,
`training_experts`, `narrow_training` (a block in bfloat16); on a GPU `gpu_training`, `gpu_blocks`. Products: `linear`,
`grouped_products`, `float32_products`, `bfloat16_products` (both over `host_kernels`, which says where kernels compute
on a CPU), `row_alignment`, `matmul_rates`. Layers: `rope`, `attention`, `mlp`, `experts` over `mixtures` and
`host_experts`, `vocabulary` over `online_softmax`, `cross_entropy`, `lora`, `separate_lora`, `elementwise`, `fp64`,
`quant/`, and what the vision tower needs. Threads: `pass_threads`, `cpu_threads`; their floating-point mode:
`denormals`.
"""
