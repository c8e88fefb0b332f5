"""Trains models: batches of conversations, the two-pass loss, the trainer, its checkpoints, and recipes.

Data: `data_config`, `numbered_lines`, `data_fields`, `data_encoder` and `data_records` -> `data_lines` -> `file_scan`
-> `file_data` (JSON lines), `file_task` (lines that a model is asked); `task_data` and `skill_data` (generators);
`prefetch` has workers make batches.

A step: `batch` (canvases, corruption, `self_generated`) -> `encoder_rows` and `head_rows` (layout) -> `forward`
(`attention`, passes) -> `two_pass` (the loss) -> `step` -> `optimizer` (`muon`) -> `objective` (what a step minimises)
-> `trainer`, `held_out`, `clock`.

A run: `config` (the optimisation), `plan`, `recipe` (all of a run), `recipes/`, `finetune`, `evaluate` over `attempts`
and `intervals`, `records` (of `running_means`), `samples`, `plot`, `estimate`, `text_files`; `identity` (what a run
that goes on must have in common), `checkpoint` and `run_rate`; `option_groups` (where help shows their options).

Other objectives: `deepen` (more layers than the start has), `distill` (a teacher further on), `retention` (a teacher
of what is not to be forgotten), `on_policy` (along the model's own canvases), `reinforce/`. Images: `masks`, `vision`,
`data_images`, `estimate_vision` (chats with images); `picture_labels` and `labels_first` (a tower learns what is
where, before questions). Several processes: `distributed` (FSDP2), `expert_parallel` over `token_exchange`,
`context_parallel`.
"""
