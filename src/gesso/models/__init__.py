"""Defines the model families, their caches, and their files.

`block` -> `layer_steps` (a layer as compiled steps on a CPU) -> `listed_layers` -> `token_steps` and `pass_steps` (of
many rows) -> `listed_passes` -> `diffusion_gemma` over `flat_rows`; `family` (the registry) and `sdar/` (masked
blocks); `cache`, `dtype` and `device`. Files: `loading`, `saving` over `staging` (replaced as a whole), `adapters`
(LoRA), `adapter_files` over `peft_layout` (PEFT's format), `base_weights` -> `other_base` (what an adapter was trained
on), `run_folders` (what a run wrote, given in another's place), `adapter_switch`; `hub` and `card` (what a bundled
model can do). Hugging Face's names live in `hf_config`, `hf_config_keys`, `hf_generation_config`, `state_dict_adapter`
and `vision_names`, `vision_config` and `quantization/modelopt`, and for the other family in `sdar/`. `quantization/`
(`plan`, `modelopt`, `convert`, `resume`, `fit`, `tiles`, `stream`; `activations` -> `scales` -> `folding` ->
`calibration`), `offload` and `offload_plan`. Downloads: `pull` (`pull_folder`, `remote`, `byte_stream`, `read_ahead`,
`safetensors_header`). `gguf/` reads a GGUF file as a checkpoint folder (`names` -> `header_check` -> `file` ->
`config`, `tokenizer` -> `folder`). `vision_tower` with `vision_config`, `vision_names` and `vision_loading`.
"""
