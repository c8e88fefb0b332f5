"""Training with images: the passes beside inference, gradients of the tower, runs that are resumed."""

import dataclasses
from pathlib import Path

import pytest
import torch
from engine.seeing import TOWER, make_seeing_folder, picture
from safetensors.torch import load_file
from torch import Tensor

from gesso.config import LoraConfig, ModelConfig
from gesso.engine.media import MediaOptions
from gesso.engine.prompt import PromptReader
from gesso.errors import CheckpointError, ConfigError, OptionError
from gesso.generation import GenerationConfig
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder
from gesso.models.vision_config import write_vision_config
from gesso.models.vision_loading import has_vision, load_vision
from gesso.models.vision_tower import VisionModel
from gesso.nn.image_attention import image_mask
from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train import forward, two_pass
from gesso.train.batch import IGNORED, Batch, Conversation, make_batch
from gesso.train.checkpoint import export
from gesso.train.config import TrainConfig
from gesso.train.distributed import ProcessGroup
from gesso.train.masks import MASKED, causal_bias
from gesso.train.recipe import Recipe
from gesso.train.text_files import CopiedText
from gesso.train.vision import BatchImages, initialise_vision, start_vision, vision_input_of
from train.runs import Cut, CutAt, losses_of, train

CPU = torch.device("cpu")
WINDOW = 6
"""An image takes 64 tokens: far more than a sliding layer sees."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_seeing_folder(tmp_path_factory.mktemp("seeing"), WINDOW)


def reader_of(folder: Path, config: ModelConfig) -> PromptReader:
    template = ChatTemplate.from_folder(folder)
    return PromptReader(Tokenizer.from_folder(folder), template, config, vision_input_of(config))


def conversations(folder: Path, config: ModelConfig, answer: int = 5) -> list[Conversation]:
    """Two images in turns of unlike sizes, one at the beginning, and a text without any."""
    reader, made = reader_of(folder, config), []
    said = (["red or blue?", picture(seed=1), "and", picture(50, 20, seed=2)], [picture(seed=1)], ["fig pear"])
    for parts in said:
        content = [
            {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "image": part}
            for part in parts
        ]
        prompt = reader.read([{"role": "user", "content": content}], media=MediaOptions(image_budget=70))
        made.append(Conversation(prompt.ids, list(range(30, 30 + answer)), images=prompt.spans))
    return made


def batch_of(folder: Path, config: ModelConfig, prompt_loss: bool = False) -> Batch:
    return make_batch(
        conversations(folder, config),
        TrainConfig(steps=1, self_conditioning_probability=0.0, prompt_loss=prompt_loss),
        canvas_length=config.canvas_length,
        vocab_size=config.vocab_size,
        eos_token_id=config.eos_token_id,
        generator=torch.Generator().manual_seed(3),
        canvases_per_example=2,
    )


def seen_by_inference(model: DiffusionGemma, batch: Batch, images: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Encoder states of each row and logits of its canvases, by the passes of inference."""
    rows, made, left = batch.tokens_N.split(list(batch.lengths)), [], iter(images)
    for i, row in enumerate(rows):
        placed = [(image.start, next(left)) for image in batch.images[i]]
        hidden = model.encode_flat(row, [len(row)], model.new_cache(1), [placed])
        logits = []
        for k in range(batch.canvases_per_example):
            canvas = i * batch.canvases_per_example + k
            start, cache = int(batch.starts_B[canvas]), model.new_cache(1)
            model.encode_flat(row[:start], [start], cache, [placed])
            logits.append(model.denoise(batch.noisy_BC[canvas : canvas + 1], cache)[0])
        made.append((hidden, torch.stack(logits)))
    return made


@torch.no_grad()
def test_the_passes_equal_those_of_inference(folder: Path) -> None:
    model, images = load_folder(folder, "cpu"), BatchImages(load_vision(folder, "cpu"), trained=False)
    batch = batch_of(folder, model.config)
    embeddings = images.embeddings(batch)
    encoded = forward.encode(model, batch, embeddings)
    many = encoded.repeat(2)
    hidden = forward.denoise(model, batch.noisy_BC, batch.starts_B, many, None)
    logits = model.logits(hidden).view(*batch.noisy_BC.shape, -1)
    rows = seen_by_inference(model, batch, embeddings)
    assert (encoded.hidden_ND - torch.cat([row[0] for row in rows])).abs().max() < 5e-5
    assert (logits - torch.cat([row[1] for row in rows])).abs().max() < 1e-4
    blind = forward.encode(model, dataclasses.replace(batch, images=()))
    assert (encoded.hidden_ND - blind.hidden_ND).abs().max() > 0.1


def test_the_mask_is_the_one_of_inference() -> None:
    spans = [[(1, 5), (6, 14)], [], [(0, 16)]]
    for window in (3, 8, 20):
        bias = causal_bias(16, window, CPU, spans)
        for row, images in enumerate(spans):
            assert torch.equal(bias[row, 0] == 0, image_mask(16, 16, window, images, CPU))
        assert set(bias.unique().tolist()) == {0.0, MASKED}
    assert torch.equal(causal_bias(16, None, CPU, spans)[0, 0] == 0, torch.ones(16, 16).tril().bool())


def test_soft_tokens_are_no_targets(folder: Path) -> None:
    config = load_folder(folder, "cpu").config
    batch = batch_of(folder, config, prompt_loss=True)
    soft = config.image_token_ids[1]
    assert soft in batch.tokens_N
    assert soft not in batch.targets_N
    following = torch.cat([batch.tokens_N[1:], batch.tokens_N[-1:]])
    kept = batch.targets_N != IGNORED
    assert torch.equal(batch.targets_N[kept], following[kept])


def test_parts_of_a_batch_keep_their_images(folder: Path) -> None:
    model, images = load_folder(folder, "cpu"), BatchImages(load_vision(folder, "cpu"), trained=True)
    batch = batch_of(folder, model.config)
    whole = two_pass.losses(model, batch, images.embeddings(batch))
    parts = [(part, two_pass.losses(model, part, images.embeddings(part))) for part in batch.split(2)]
    mean = sum(loss.denoiser * part.canvas_tokens for part, loss in parts) / batch.canvas_tokens
    assert mean.item() == pytest.approx(whole.denoiser.item(), abs=1e-5)


def test_the_gradient_reaches_a_tower_that_learns_and_no_other(folder: Path) -> None:
    model = load_folder(folder, "cpu").train().requires_grad_(True)
    batch = batch_of(folder, model.config)
    for trained in (True, False):
        images = BatchImages(load_vision(folder, "cpu"), trained=trained)
        loss = two_pass.losses(model, batch, images.embeddings(batch))
        (loss.denoiser + loss.encoder).backward()
        moved = [name for name, p in images.vision.named_parameters() if p.grad is not None and p.grad.abs().max() > 0]
        assert moved == ([name for name, _ in images.vision.named_parameters()] if trained else [])
    frozen = BatchImages(load_vision(folder, "cpu"), trained=False).embeddings(batch)
    learning = BatchImages(load_vision(folder, "cpu"), trained=True).embeddings(batch)
    assert all((one - other).abs().max() < 1e-5 for one, other in zip(frozen, learning, strict=True))


class Pictures:
    """The same conversations at every step."""

    fingerprint = "pictures"

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        self.conversations = conversations(folder, config)

    def batch(self, *_: int) -> list[Conversation]:
        return self.conversations

    def evaluation(self, limit: int) -> list[Conversation]:
        return self.conversations[:limit]


def recipe(folder: Path, start: Path | None, **changes: object) -> Recipe:
    config = load_folder(folder, "cpu").config
    settings = TrainConfig(steps=4, batch_size=3, learning_rate=5e-3, warmup_steps=1, checkpoint_every=2, log_every=1)
    fields: dict[str, object] = {"vision": "trained", "train": settings, "start": start}
    fields |= {"data": Pictures(folder, config)} | changes
    return Recipe(
        name="seeing",
        model=config,
        generation=GenerationConfig(),
        text=CopiedText(folder),
        **fields,  # type: ignore[arg-type]
    )


def tensors_of(folder: Path) -> dict[str, Tensor]:
    """Weights of text model and tower, and the optimiser's state."""
    files = sorted(path.name for path in folder.glob("*.safetensors"))
    assert files == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "optimizer.safetensors"]
    return {f"{name}/{key}": tensor for name in files for key, tensor in load_file(folder / name).items()}


def assert_it_goes_on(plan: Recipe, out: Path) -> Path:
    """Trains to the end at once, and with a break: to the same weights and state. Returns the first one's last
    checkpoint."""
    whole = train(plan, out / "whole")
    with pytest.raises(Cut):
        train(plan, out / "cut", callback=CutAt(3))
    again = train(plan, out / "cut")
    one, other = tensors_of(whole), tensors_of(again)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    return whole


def test_a_run_that_was_cut_off_goes_on_with_its_tower(folder: Path, tmp_path: Path) -> None:
    muon = TrainConfig(steps=4, batch_size=3, warmup_steps=1, checkpoint_every=2, log_every=1, optimizer="muon")
    plan = recipe(folder, None, train=muon)
    whole = assert_it_goes_on(plan, tmp_path)
    assert losses_of(tmp_path / "whole") == losses_of(tmp_path / "cut")
    first = losses_of(tmp_path / "whole")
    assert first[4][0] < first[1][0]
    export(whole, tmp_path / "model")
    loaded, kept = load_vision(tmp_path / "model", "cpu", "float32"), load_vision(whole, "cpu", "float32")
    for name, tensor in kept.state_dict().items():
        assert (loaded.state_dict()[name] - tensor).abs().max() <= 0.01 * tensor.abs().max()


class LatePictures(Pictures):
    """Text alone in the first two steps."""

    def batch(self, step: int, *_: int) -> list[Conversation]:
        return self.conversations if step >= 2 else [each for each in self.conversations if not each.images]


def test_a_run_goes_on_whose_images_come_late(folder: Path, tmp_path: Path) -> None:
    plan = recipe(folder, folder, data=LatePictures(folder, load_folder(folder, "cpu").config))
    assert_it_goes_on(plan, tmp_path)


def test_a_frozen_tower_is_carried_over_and_a_trained_one_is_another(folder: Path, tmp_path: Path) -> None:
    before = load_vision(folder, "cpu", "float32").state_dict()
    for vision in ("frozen", "trained"):
        last = train(recipe(folder, folder, vision=vision), tmp_path / vision)
        after = load_vision(last, "cpu", "float32").state_dict()
        assert all(torch.equal(before[name], after[name]) for name in before) == (vision == "frozen")
    with pytest.raises(CheckpointError, match="with other settings"):
        train(recipe(folder, folder, vision="frozen"), tmp_path / "trained")


def test_an_adapter_learns_over_a_frozen_tower(folder: Path, tmp_path: Path) -> None:
    last = train(recipe(folder, folder, vision="frozen", adapter=LoraConfig(rank=2), base="x"), tmp_path / "run")
    assert (last / "adapter_model.safetensors").exists()
    assert not (last / "model.safetensors").exists()


def test_what_cannot_be_trained_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="holds no vision tower"):
        recipe(folder, folder, adapter=LoraConfig())
    with pytest.raises(OptionError, match="in one process only"):
        start_vision(recipe(folder, folder), ProcessGroup(CPU, 0, 2))
    from train.runs import SHAPE, random_model, save_folder

    save_folder(random_model(SHAPE), tmp_path / "blind")
    assert not has_vision(tmp_path / "blind")
    with pytest.raises(CheckpointError, match="has no vision tower"):
        start_vision(recipe(folder, tmp_path / "blind", vision="frozen"), ProcessGroup(CPU))


def test_fresh_towers_are_alike_by_seed_and_their_embeddings_of_the_size_of_the_texts() -> None:
    config = dataclasses.replace(TOWER, hidden_size=48, num_hidden_layers=3, standardize=False)
    first, again, other = (VisionModel(config, 32) for _ in range(3))
    for vision, seed in ((first, 1), (again, 1), (other, 2)):
        initialise_vision(vision, seed)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.tower.input_proj.weight, other.tower.input_proj.weight)
    pixels = torch.rand(2, 144, config.pixels, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert 0.8 < float(first(pixels, 12, 12).square().mean().sqrt()) < 1.25


def test_how_a_model_takes_images_follows_from_its_config(folder: Path) -> None:
    config = load_folder(folder, "cpu").config
    assert vision_input_of(config).layout.token_side == 12
    assert vision_input_of(config).longest_side == TOWER.position_embedding_size
    blind = dataclasses.replace(config, vision_config=None)
    with pytest.raises(ConfigError, match="missing"):
        vision_input_of(blind)
    assert write_vision_config(TOWER) == config.vision_config
    assert build_tokenizer().get_vocab_size() == config.vocab_size
