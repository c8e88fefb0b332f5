"""Plans the quantizing of a checkpoint on the Hub from the headers of its files: what is there, what is made of it."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from gesso.errors import HubError
from gesso.models.byte_stream import RemoteBytes
from gesso.models.loading import packed_names
from gesso.models.pull import pull_texts, remote_bytes, weight_files
from gesso.models.quantization.convert import check_out, plan_folder
from gesso.models.quantization.plan import Quantization
from gesso.models.quantization.tiles import form_of
from gesso.models.remote import HubModel
from gesso.models.safetensors_header import Header, read_header
from gesso.models.state_dict_adapter import tied_to, to_hf
from gesso.models.tensors import check_stored, sources
from gesso.models.vision_names import VISION_PREFIXES
from gesso.nn.quant.base import Format


@dataclass(frozen=True, slots=True)
class StreamSource:
    """Describes a checkpoint on the Hub, of which all but the weights is here."""

    folder: Path
    """Holds `config.json` and all else that is no weight."""
    files: dict[str, RemoteBytes]
    sums: dict[str, str]
    """SHA-256 of each file."""
    headers: dict[str, Header]

    @property
    def bytes(self) -> int:
        """Returns the bytes of the weights' files."""
        return sum(file.size for file in self.files.values())

    @property
    def tower_bytes(self) -> int:
        """Returns the bytes of the vision tower, which is not quantized."""
        tensors = (tensor for header in self.headers.values() for tensor in header.tensors)
        return sum(tensor.bytes for tensor in tensors if tensor.name.startswith(VISION_PREFIXES))


@dataclass(frozen=True, slots=True)
class Plan:
    """Tells what is made of each tensor."""

    source: StreamSource
    ours: dict[str, str]
    """Our name of each tensor of the text model, by Hugging Face name."""
    like: dict[str, Tensor]
    """Shapes of those, by our name."""
    forms: dict[str, Format]
    copies: dict[str, str]
    """Second copies of tensors that are packed, which are left out, and the names of the first."""
    bytes_written: int
    """Bytes of what will be written."""


def read_source(model: HubModel) -> StreamSource:
    """Fetches the texts of a checkpoint and the headers of its weights' files.

    Raises:
        HubError: something cannot be fetched, or a file has no SHA-256.
        CheckpointError: it is no model of ours, or a file is no safetensors file.
        ConfigError: its config cannot be read.
    """
    folder = pull_texts(model)
    files, sums = dict[str, RemoteBytes](), dict[str, str]()
    for file in weight_files(model, folder):
        if file.sha256 is None:
            raise HubError(f"the Hub gives no SHA-256 of {file.name}: it cannot be checked while it streams")
        files[file.name], sums[file.name] = remote_bytes(model, file), file.sha256
    return StreamSource(folder, files, sums, {name: read_header(file) for name, file in files.items()})


def make_plan(source: StreamSource, out: Path, chosen: Quantization) -> Plan:
    """Checks that all tensors are there and of the right shape, and finds what is made of them.

    Raises:
        OptionError: nothing to do, or a folder `out` that is not empty.
        CheckpointError: the checkpoint cannot be used, or is quantized already.
    """
    check_out(out, chosen)
    like, packed, forms = plan_folder(source.folder, chosen)
    stored = {tensor.name: (Path(file), tensor) for file, header in source.headers.items() for tensor in header.tensors}
    found = sources(source.folder, {name: path for name, (path, _) in stored.items()}, like)
    for name, (hf_name, _) in found.items():
        tensor = stored[hf_name][1]
        check_stored(hf_name, list(tensor.shape), tensor.kind, like[name], packed=False)
    new_names = {to_hf(name) for name in like if form_of(name, forms) is not None}
    copies = {name: tied for name in stored if (tied := tied_to(name)) is not None and tied in new_names}
    state, new = packed.state_dict(), packed_names(packed, forms)
    whole = {hf_name for name, (hf_name, _) in found.items() if form_of(name, forms) is None}
    other = stored.keys() - {hf_name for hf_name, _ in found.values()} - copies.keys()
    size = sum(state[name].nbytes for name in new) + sum(stored[name][1].bytes for name in whole | other)
    return Plan(source, {hf_name: name for name, (hf_name, _) in found.items()}, like, forms, copies, size)
