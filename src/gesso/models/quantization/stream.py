"""Quantizes a checkpoint while it arrives from the Hub: its weights are packed as they come and never lie on the disk.

Life cycle: `stream_plan` reads the headers of all files and finds what is made of each tensor, before a weight is
fetched. `quantize_stream` then reads each file from its first byte to its last, packs tensor by tensor, and writes a
file of its own whenever `FILE_BYTES` are packed. With each of them it notes how far it is, and the checksum so far:
broken off, it goes on from there. At a file's end the checksum is compared with the Hub's; what was made of a damaged
file is thrown away, and what was noted of its tensors. Only tensors of files that arrived undamaged are compared with
their copies.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gesso.errors import CheckpointError, HubError
from gesso.kernels.host.checksum import Sha256
from gesso.models.pull import Progress
from gesso.models.quantization import resume
from gesso.models.quantization.convert import QuantizeReport, check_out, finish_folder
from gesso.models.quantization.plan import Quantization, write_quantization
from gesso.models.quantization.resume import Written
from gesso.models.quantization.stream_plan import Plan
from gesso.models.quantization.tiles import check_disk, form_of, pack_tiles, places
from gesso.models.read_ahead import read_ahead
from gesso.models.safetensors_header import TYPES, StoredTensor
from gesso.models.saving import write_tensors
from gesso.models.tensors import check_finite

FILE_BYTES = 1 << 28
"""Packed bytes after which a file is written: what a break costs at most, a tensor aside."""


@dataclass(slots=True)
class Streamed(Written):
    """Tells how far a stream is, beside what was written of it."""

    files_done: list[str] = field(default_factory=list)
    """Files of the Hub that arrived whole."""
    position: int = 0
    """Bytes that were taken of the next."""
    checksum: dict[str, Any] | None = None
    """State of that one's checksum."""
    made_of: dict[str, list[str]] = field(default_factory=dict)
    """Which files were written of which of the Hub's."""
    errors: dict[str, float] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    """Checksums of tensors that are stored twice."""

    def forget(self, folder: Path, file: str, tensors: Iterable[str]) -> None:
        """Removes what was made of one of the Hub's files, and what was noted of its tensors."""
        for own in self.made_of.pop(file, []):
            (folder / own).unlink(missing_ok=True)
            self.shards.remove(own)
            for name in [name for name, place in self.weight_map.items() if place == own]:
                del self.weight_map[name]
        for name in tensors:
            self.errors.pop(name, None)
            self.digests.pop(name, None)
        self.position, self.checksum = 0, None
        self.save(folder)


def quantize_stream(
    out: Path, chosen: Quantization, planned: Plan, progress: Progress = lambda taken: None
) -> QuantizeReport:
    """Fetches the weights of `planned` and writes them to `out`, quantized; asks the disk for room first.

    Args:
        out, chosen: as for `make_plan`.
        progress: is told at once what an earlier call brought.

    Raises:
        OptionError: too little room, or `out` is of no use (`check_out`).
        CheckpointError: a number is not finite, or a copy differs from the first.
        HubError: a file cannot be fetched, or arrives damaged.
        OSError: what is made cannot be written. After any of them the same call goes on from the last file written.
    """
    out = check_out(out, chosen)
    partial = resume.partial_of(out)
    of = {"formats": write_quantization(chosen), "files": planned.source.sums}
    earlier = resume.peek(partial, of, Streamed)
    check_disk(out, planned.bytes_written - sum((partial / own).stat().st_size for own in earlier.shards))
    with resume.started(partial, of, Streamed) as done:
        progress(sum(planned.source.files[name].size for name in done.files_done) + done.position)
        for name in planned.source.files:
            if name not in done.files_done:
                _take_file(name, planned, partial, done, progress)
        done.tensor, done.worst = max(done.errors.items(), key=lambda item: item[1], default=("", 0.0))
        after = finish_folder(planned.source.folder, partial, out, chosen, done)
    return QuantizeReport(planned.source.bytes, after, done.worst, done.tensor)


class _Incoming:
    """Takes bytes of a file in order, and sums them up."""

    def __init__(self, pieces: Iterator[bytes], state: dict[str, Any] | None, progress: Progress) -> None:
        self._pieces, self._progress = pieces, progress
        self._held = b""
        self.sum = Sha256(state)

    def take(self, count: int) -> bytearray:
        """Returns the next `count` bytes."""
        taken = bytearray(self._held[:count])
        self._held = self._held[count:]
        while len(taken) < count:
            piece = next(self._pieces)
            self._progress(len(piece))
            missing = count - len(taken)
            taken += piece[:missing]
            self._held = piece[missing:]
        self.sum.update(taken)
        return taken


def _take_file(name: str, planned: Plan, partial: Path, done: Streamed, progress: Progress) -> None:
    """Packs one of the Hub's files, from where `done` is."""
    header, file = planned.source.headers[name], planned.source.files[name]
    held: dict[str, Tensor] = {}
    with closing(read_ahead(file.stream(done.position))) as pieces:
        incoming = _Incoming(pieces, done.checksum, progress)
        start = done.position
        if not start and incoming.take(len(header.raw)) != header.raw:
            raise _damaged(name, planned, partial, done)
        for tensor in header.tensors:
            if tensor.begin < start:
                continue
            held |= _made(tensor, planned, incoming, done)
            if sum(part.nbytes for part in held.values()) >= FILE_BYTES or tensor is header.tensors[-1]:
                if tensor is header.tensors[-1]:
                    if incoming.sum.hexdigest() != planned.source.sums[name]:
                        raise _damaged(name, planned, partial, done)
                    _compare_copies(planned.copies, done.digests)
                _write(name, partial, held, done)
                held = {}
                done.position, done.checksum = tensor.end, incoming.sum.state
                if tensor is not header.tensors[-1]:
                    done.save(partial)
    done.files_done.append(name)
    done.position, done.checksum = 0, None
    done.save(partial)


def _write(name: str, partial: Path, held: dict[str, Tensor], done: Streamed) -> None:
    if not held:  # copies alone
        return
    own = f"model-{len(done.shards) + 1:05d}.safetensors"
    write_tensors(partial / own, held)
    done.weight_map |= dict.fromkeys(held, own)
    done.shards.append(own)
    done.made_of.setdefault(name, []).append(own)


def _damaged(name: str, planned: Plan, partial: Path, done: Streamed) -> HubError:
    done.forget(partial, name, (tensor.name for tensor in planned.source.headers[name].tensors))
    return HubError(
        f"{name} arrived damaged: its checksum is not what the Hub says. What was made of it was removed; the same "
        "command again fetches it anew"
    )


def _made(tensor: StoredTensor, planned: Plan, incoming: _Incoming, done: Streamed) -> dict[str, Tensor]:
    """Returns what is written of one tensor, by Hugging Face name."""
    twice = tensor.name in planned.copies or tensor.name in planned.copies.values()
    digest = hashlib.sha256(tensor.kind.encode())
    ours = planned.ours.get(tensor.name)
    form = None if ours is None else form_of(ours, planned.forms)

    def pieces(sizes: Sequence[Sequence[int]]) -> Iterator[Tensor]:
        for size in sizes:
            numbers = torch.Size(size).numel() * TYPES[tensor.kind].itemsize
            raw = incoming.take(numbers)
            if twice:
                digest.update(raw)
            kind = TYPES[tensor.kind]
            yield torch.frombuffer(raw, dtype=kind).view(size) if raw else torch.empty(size, dtype=kind)

    if ours is None or form is None:
        whole = next(pieces([tensor.shape]))
        if ours is not None:
            check_finite(tensor.name, whole)
        made = {} if tensor.name in planned.copies else {tensor.name: whole}
    else:
        like = planned.like[ours]
        where = list(places(like))
        shapes = [list(like[place].shape) for place in where]
        packed = pack_tiles(ours, like, form, zip(where, pieces(shapes), strict=True))
        made = packed.parts
        done.errors[tensor.name] = packed.error
    if twice:
        done.digests[tensor.name] = digest.hexdigest()
    return made


def _compare_copies(copies: Mapping[str, str], digests: Mapping[str, str]) -> None:
    """Compares tensors that are stored twice, once both have come.

    Raises:
        CheckpointError: two differ.
    """
    for copy, first in copies.items():
        if copy in digests and first in digests and digests[copy] != digests[first]:
            raise CheckpointError(f"{copy} differs from {first}; gesso reads tied checkpoints only")
