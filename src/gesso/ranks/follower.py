"""Runs a follower: a process that computes its part of what the leader announces, until the leader is gone.

The leader starts it as a module of its own kind of model, with the number of the open socket that its messages come
through; `run` is what such a module calls.
"""

import ctypes
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gesso.errors import RankLostError, UserError
from gesso.models.adapter_switch import AdapterSwitch
from gesso.models.cache import KVCache, SequenceCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.ranks.group import RankGroup, receive, send
from gesso.ranks.processes import Rendezvous, join
from gesso.ranks.refusal import Refusal


class Follower:
    """Does what the leader announces, by name; here all that caches and adapters take, whatever a rank computes."""

    def __init__(self, model: DiffusionGemma, switch: AdapterSwitch) -> None:
        self.model, self.switch = model, switch
        self.answer: Callable[[Any], None] = lambda value: None
        """Sends something back to the leader."""
        self.caches: dict[int, SequenceCache] = {}
        self.taken: dict[int, list[Tensor]] = {}
        """What was rolled back, by cache."""
        self.copies: dict[int, tuple[Tensor, ...]] = {}
        """Copies of prefixes: keys and values of the layers of a kind."""
        self.held: dict[str, tuple[dict[int, Any], ...]] = {
            "cache": (self.caches, self.taken),
            "copy": (self.copies,),
        }
        """What the leader may drop, by kind."""
        self.actions: dict[str, Callable[..., None]] = {
            "new_cache": self.new_cache,
            "load_adapters": self.load_adapters,
            "activate": self.activate,
            "rollback": self.rollback,
            "restore": self.restore,
            "copy_prefix": self.copy_prefix,
            "restore_prefix": self.restore_prefix,
        }
        """What the leader may announce, by name."""

    @torch.inference_mode()
    def obey(self, name: str, dropped: list[tuple[str, int]], args: list[Any]) -> None:
        """Computes one message."""
        for kind, number in dropped:
            for held in self.held[kind]:
                held.pop(number, None)
        self.actions[name](*args)

    def new_cache(self, number: int, max_seq_len: int, max_write_len: int) -> None:
        """Makes an empty cache under a number."""
        (self.caches[number],) = self.model.new_cache(1, max_seq_len, max_write_len).rows

    def load_adapters(self, folders: dict[str, str]) -> None:
        """Loads adapters, by name."""
        self.switch.load({name: Path(folder) for name, folder in folders.items()})

    def activate(self, name: str | None) -> None:
        """Computes with an adapter from here on, or with none."""
        self.switch.activate(name)

    def rollback(self, number: int, tokens: int) -> None:
        """Takes the last tokens out of a cache, and keeps them."""
        self.taken[number] = self.caches[number].rollback(tokens)

    def restore(self, number: int) -> None:
        """Puts back what was taken out last."""
        self.caches[number].restore(self.taken.pop(number))

    def copy_prefix(self, copy: int, number: int, tokens: int, sliding: bool) -> None:
        """Keeps a copy of a cache's last tokens under a number."""
        self.copies[copy] = self.caches[number].copy_newest(tokens, sliding=sliding)

    def restore_prefix(self, number: int, tokens: int, full: list[int], sliding: list[int]) -> None:
        """Fills a cache from copies."""
        parts = ([self.copies[copy] for copy in copies] for copies in (full, sliding))
        self.caches[number].refill(tokens, *parts)

    def rows(self, numbers: list[int]) -> KVCache:
        """Returns some caches as those of a batch."""
        return KVCache([self.caches[number] for number in numbers])


_PARENT_DEATH = 1
"""`PR_SET_PDEATHSIG` of Linux."""


def _end_with_parent() -> None:
    """Has the system end this process, even a stopped one, when the leader ends.

    More exactly, when the leader's thread ends that has started this process: `gesso.ranks.processes.Starter` keeps it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)


def run(load: Callable[[Rendezvous, RankGroup], Follower]) -> None:
    """Runs this process as a follower, and ends it.

    Args:
        load: reads this rank's part of the model.
    """
    code = 1
    try:
        _follow(int(sys.argv[1]), load)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # A group of which a rank is gone would wait for it while it is taken apart.
        os._exit(code)


def _follow(number: int, load: Callable[[Rendezvous, RankGroup], Follower]) -> None:
    """Joins the group, loads this rank's part and obeys; returns when the leader has closed the socket."""
    _end_with_parent()
    # These reach the whole process group, and SIGTERM all processes of a service; the leader decides.
    for sent in (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if sys.platform != "win32" else [])):
        signal.signal(sent, signal.SIG_IGN)
    channel = socket.socket(fileno=number)
    plan: Rendezvous = receive(channel)
    if plan is None:
        return
    torch.set_num_threads(plan.threads)
    send(channel, plan.rank)
    receive(channel)
    try:
        group = join(plan)
        try:
            follower = load(plan, group)
        except UserError as error:
            send(channel, Refusal.of(error))
            return
        follower.answer = lambda value: send(channel, value)
        send(channel, held_numbers(follower.model))
        while (message := receive(channel)) is not None:
            follower.obey(*message)
    except (RankLostError, ConnectionError):  # the leader has gone, or knows
        return


def held_numbers(model: torch.nn.Module) -> int:
    """Counts the numbers of a model that this process holds."""
    return sum(tensor.numel() for tensor in model.state_dict().values() if not tensor.is_meta)
