"""The reference of the masked family: transformers' Qwen3, whose stack SDAR has, under a mask of blocks.

What decodes it is diffusers' pipeline for LLaDA 2, which commits by confidence behind whole blocks as SDAR does.
"""

import json
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from gesso.tasks.vocabulary import build_tokenizer
from gesso.train.text_files import NewText

SHARP = 6.0
"""Factor of the head: random distributions would be flat, and no token sure."""


def make_sdar_folder(folder: Path, *, block: int = 4, tied: bool = False, bias: bool = False, seed: int = 0) -> Path:
    """Writes a small random checkpoint as SDAR's are written; the bundled model's tokenizer, and a mask behind it."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    words = len(build_tokenizer().get_vocab())
    sizes = {
        "vocab_size": words + 3,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "attention_bias": bias,
        "tie_word_embeddings": tied,
        "bos_token_id": 2,
        "eos_token_id": 1,
    }
    model = Qwen3ForCausalLM(Qwen3Config(**sizes, rope_theta=10_000.0, use_sliding_window=False)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.uniform_(0.5, 1.5, generator=generator)
            else:
                parameter.normal_(0, 0.5 if parameter.dim() == 1 else parameter.shape[1] ** -0.5, generator=generator)
        model.model.norm.weight.mul_(SHARP)
    model.save_pretrained(folder)
    own = {"model_type": "sdar", "architectures": ["SDARForCausalLM"], "hidden_act": "silu", "rope_theta": 10_000}
    own |= {"block_size": block, "mask_token_id": words + 1, "sliding_window": None, "use_sliding_window": False}
    tokens = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    settings = {"bos_token_id": 2, "eos_token_id": [1], "pad_token_id": 1, "do_sample": True, "temperature": 0.6}
    template = resources.files("gesso.tasks").joinpath("chat_template.jinja").read_text("utf-8")
    NewText(build_tokenizer, template, {"tokenizer_class": "PreTrainedTokenizerFast", **tokens}).write(folder)
    (folder / "config.json").write_text(json.dumps(sizes | own), encoding="utf-8")
    (folder / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


class SdarReference:
    """Computes logits of whole sequences, each token seeing all up to the end of its block."""

    def __init__(self, folder: Path) -> None:
        from transformers import Qwen3Config, Qwen3ForCausalLM

        raw: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.block, self.mask = raw.pop("block_size"), raw.pop("mask_token_id")
        del raw["model_type"], raw["architectures"]
        config = Qwen3Config(**raw, attn_implementation="eager")
        self.model = Qwen3ForCausalLM.from_pretrained(folder, config=config).eval()

    @torch.no_grad()
    def logits(self, tokens_BT: Tensor) -> Tensor:
        """Returns scores of all positions, [B, T, V]; the mask token's are minus infinity."""
        place_T = torch.arange(tokens_BT.shape[1]) // self.block
        hidden_TT = torch.where(place_T[None, :] <= place_T[:, None], 0.0, torch.finfo(torch.float32).min)
        logits: Tensor = self.model(tokens_BT, attention_mask=hidden_TT.expand(len(tokens_BT), 1, -1, -1)).logits
        logits[..., self.mask] = -torch.inf
        return logits

    def generate(self, prompt: list[int], tokens: int, *, steps: int, threshold: float) -> list[int]:
        """Decodes greedily with diffusers' pipeline; a threshold above 1 commits the step's share alone."""
        from diffusers import BlockRefinementScheduler, LLaDA2Pipeline

        assert (len(prompt) + tokens) % self.block == 0
        pipeline = LLaDA2Pipeline(_Wrapped(self), BlockRefinementScheduler(block_length=self.block))
        pipeline.set_progress_bar_config(disable=True)
        found = pipeline(
            input_ids=torch.tensor([prompt]),
            gen_length=tokens,
            block_length=self.block,
            num_inference_steps=steps,
            temperature=0.0,
            threshold=threshold,
            editing_threshold=None,
            eos_early_stop=False,
            mask_token_id=self.mask,
            output_type="seq",
        )
        said: list[int] = found.sequences[0].tolist()
        return said


class _Wrapped(torch.nn.Module):
    """Calls the reference as the pipeline calls its model."""

    device, dtype = torch.device("cpu"), torch.float32

    def __init__(self, reference: SdarReference) -> None:
        super().__init__()
        self._of = [reference]

    def forward(self, tokens_BT: Tensor, **_: Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self._of[0].logits(tokens_BT))
