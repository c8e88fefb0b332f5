"""Splits one text model by its layers over several processes of a machine, for devices with a slow link between them.

Every rank, a stage, holds neighbouring layers; the leader has the table, self-conditioning and the final norm besides.
The rows of a pass are cut in micro-batches that follow each other through the stages, so that several work at the same
time (GPipe's scheme, arXiv 1811.06965). Hidden states [N, D] cross from stage to stage, and from the last to rank 0.

`stages` -> `model` (micro-batches under way), `loading`, `follower`; docs/tensor-parallel.md describes both packages.
"""
