"""Connects the ranks of one model: what they add up and gather together, and what the leader announces."""

import hashlib
import pickle
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gesso.errors import RankLostError

BROKEN_OFF = "what the ranks computed together was broken off: the model has to be loaded anew"
_SIZE = struct.Struct("!Q")


@dataclass(slots=True)
class RankGroup:
    """Describes this process among those that compute one model; a group of one computes it alone.

    Collectives are called by all ranks in the same order. Messages go from the leader to each follower through a
    socket of its own, which ends with either of them.
    """

    rank: int
    size: int
    device: torch.device
    followers: Sequence[socket.socket] = ()
    """The leader's ends of the sockets."""
    collectives: int = 0
    """Sums and gathers so far."""
    sent: list[Tensor | None] = field(default_factory=lambda: [None, None])
    """The newest hidden states and embeddings that every rank has made for itself: what equals them is not sent."""
    checks: bool = False
    """Whether ranks compare what they decide."""
    decided: list[tuple[str, int]] = field(default_factory=list)
    """Digests of what this rank has decided since they were compared, and what of."""
    in_pass: bool = False
    """Whether all ranks are within an announced pass."""
    lost: str | None = None
    """Why the group is of no more use."""
    back: dist.ProcessGroup | None = None
    """The way from the last stage to the leader, where stages follow each other. It is one of its own, as what two
    processes send each other over one way of NCCL is done in order, in both directions together."""
    dropped: deque[tuple[str, int]] = field(default_factory=deque)
    """What the followers may forget, such as caches, by kind and number: told with the next message."""

    @property
    def leads(self) -> bool:
        """Says whether this is rank 0."""
        return self.rank == 0

    def share(self, count: int) -> range:
        """Returns this rank's part of `count` things that are cut evenly."""
        each = count // self.size
        return range(self.rank * each, (self.rank + 1) * each)

    def sum_(self, x: Tensor) -> Tensor:
        """Adds up the ranks' tensors, in place; every rank gets the same bits.

        Raises:
            RankLostError: a rank has ended or hangs.
        """
        with self._together():
            dist.all_reduce(x)
        return x

    def gather(self, x: Tensor) -> Tensor:
        """Returns the ranks' tensors of one shape, [size, ...].

        Raises:
            RankLostError: a rank has ended or hangs.
        """
        parts = [torch.empty_like(x) for _ in range(self.size)]
        with self._together():
            dist.all_gather(parts, x.contiguous())
        return torch.stack(parts)

    def pass_on(self, x: Tensor) -> "Sending":
        """Begins to send a tensor to the next rank, behind the last to rank 0.

        Raises:
            RankLostError: a rank has ended or hangs.
        """
        following = (self.rank + 1) % self.size
        with self._reaching():
            work = dist.isend(x.contiguous(), following, group=None if following else self.back)
        assert work is not None
        return Sending(self, work, x)

    def take(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Waits for a tensor from the rank before, at rank 0 from the last.

        Raises:
            RankLostError: a rank has ended or hangs.
        """
        x = torch.empty(*shape, dtype=dtype, device=self.device)
        with self._reaching():
            dist.recv(x, (self.rank - 1) % self.size, group=None if self.rank else self.back)
        return x

    def decide(self, what: str, x: Tensor) -> None:
        """Keeps a digest of something that every rank decides for itself and all must decide alike."""
        if self.checks:
            digest = hashlib.blake2b(x.detach().cpu().contiguous().numpy().tobytes(), digest_size=7).digest()
            self.decided.append((what, int.from_bytes(digest, "big")))

    def compare(self) -> None:
        """Compares what the ranks have decided since the last time; all call this together.

        Raises:
            RankLostError: they differ, or a rank has ended or hangs.
        """
        if not self.decided:
            return
        decided, self.decided = self.decided, []
        all_RK = self.gather(torch.tensor([digest for _, digest in decided], device=self.device))
        differing = (all_RK != all_RK[0]).nonzero()
        if len(differing):
            place = int(differing[:, 1].min())
            rank = int(differing[differing[:, 1] == place][0, 0])
            self.lost = f"the ranks decided differently: rank {rank} and rank 0 in {decided[place][0]}"
            raise RankLostError(self.lost)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Marks what is computed as a part of a pass that all ranks compute; one that is left halfway is the end of
        the group."""
        self.in_pass = True
        try:
            yield
            self.compare()
        except BaseException:
            self.lost = self.lost or BROKEN_OFF
            raise
        finally:
            self.in_pass = False

    @contextmanager
    def _together(self) -> Iterator[None]:
        with self._reaching():
            self.collectives += 1
            yield

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        if self.lost is not None:
            raise RankLostError(self.lost)
        try:
            yield
        except (RuntimeError, OSError) as error:
            self.lost = f"a rank of {self.size} has ended or does not answer"
            raise RankLostError(self.lost) from error
        except BaseException:
            self.lost = BROKEN_OFF
            raise

    def answers(self) -> list[Any]:
        """Waits for what every follower sends back to the message that was announced last.

        Raises:
            RankLostError: a rank has ended or hangs.
        """
        with self._reaching():
            found = [receive(follower) for follower in self.followers]
        if None in found:
            self.lost = f"a rank of {self.size} has ended or does not answer"
            raise RankLostError(self.lost)
        return found

    def announce(self, name: str, *args: Any) -> None:
        """Tells every follower what to compute next; nothing where this rank is one itself.

        Raises:
            RankLostError: a rank has ended or hangs.
        """
        if not self.followers:
            return
        with self._reaching():
            dropped = [self.dropped.popleft() for _ in range(len(self.dropped))]
            for follower in self.followers:
                send(follower, (name, dropped, [_on_host(arg) for arg in args]))

    def reference(self, kind: int, x_ND: Tensor) -> Tensor | range | None:
        """Returns what is sent for a tensor: None where every rank made the same itself, which of its rows where it is
        some of them."""
        known = self.sent[kind]
        if known is None or known.dtype != x_ND.dtype or known.shape[1:] != x_ND.shape[1:]:
            return x_ND
        if known.shape == x_ND.shape and torch.equal(known, x_ND):
            return None
        shared = known.untyped_storage().data_ptr() == x_ND.untyped_storage().data_ptr()
        if not shared or not (known.is_contiguous() and x_ND.is_contiguous()):
            return x_ND
        begin = (x_ND.storage_offset() - known.storage_offset()) // known.shape[1]
        return range(begin, begin + len(x_ND))

    def resolve(self, kind: int, x: Tensor | range | None) -> Tensor:
        """Returns what a follower was sent by `reference`."""
        if isinstance(x, Tensor):
            return x.to(self.device)
        found = self.sent[kind]
        assert found is not None
        return found if x is None else found[x.start : x.stop]


@dataclass(slots=True)
class Sending:
    """Holds a tensor while it is sent."""

    group: RankGroup
    work: dist.Work
    x: Tensor

    def wait(self) -> None:
        """Waits until it has been taken.

        Raises:
            RankLostError: a rank has ended or hangs.
        """
        with self.group._reaching():
            self.work.wait()


def _on_host(value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, Tensor) else value


def send(channel: socket.socket, message: Any) -> None:
    """Sends one message. Both ends are processes of one run, so that it may be pickled.

    Raises:
        OSError: the other end has closed, or takes nothing within the socket's time limit.
    """
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    channel.sendall(_SIZE.pack(len(data)) + data)


def receive(channel: socket.socket) -> Any:
    """Waits for one message; None where the other end has closed."""
    head = _read(channel, _SIZE.size)
    data = None if head is None else _read(channel, *_SIZE.unpack(head))
    return None if data is None else pickle.loads(data)


def _read(channel: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        try:
            part = channel.recv(min(count - len(data), 1 << 20))
        except ConnectionError:
            return None
        if not part:
            return None
        data += part
    return bytes(data)
