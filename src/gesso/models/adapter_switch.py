"""Switches among several adapters on one set of weights, one of them active at a time."""

from collections.abc import Callable, Mapping
from pathlib import Path

from gesso.config import LoraConfig
from gesso.errors import OptionError
from gesso.models.adapter_files import load_adapter
from gesso.models.adapters import adapted_layers, put_layer
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn.lora import LoraExperts, LoraLinear


class AdapterSwitch:
    """Loads adapters with `load`; `activate` puts the layers of one in the place of those they wrap.

    The base weights are held once, and an adapter's deltas stay beside them, unmerged.
    """

    def __init__(
        self, model: DiffusionGemma, load: Callable[[DiffusionGemma, Path], LoraConfig] = load_adapter
    ) -> None:
        """
        Args:
            load: puts the adapter of a folder on the model.
        """
        self._model = model
        self._load = load
        self._layers: dict[str, dict[str, LoraLinear | LoraExperts]] = {}
        self._active: str | None = None
        self._mixed = False
        """Whether it was interrupted while it exchanged layers."""

    def load(self, folders: Mapping[str, Path]) -> None:
        """Loads adapters, all or none; none is active afterwards. A name that is known already means the new one from
        here on.

        Raises:
            CheckpointError: an adapter is damaged or does not fit the model.
        """
        self.activate(None)
        loaded = {}
        try:
            for name, folder in folders.items():
                self._load(self._model, folder)
                loaded[name] = dict(adapted_layers(self._model))
                self._take_off(loaded[name])
        except BaseException:
            self._take_off(dict(adapted_layers(self._model)))
            raise
        self._layers |= loaded

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the adapters, in the order they were loaded."""
        return tuple(self._layers)

    def check(self, name: str | None) -> None:
        """Refuses a name that no adapter has.

        Raises:
            OptionError: the message says which there are.
        """
        if name is not None and name not in self._layers:
            raise OptionError.no_adapter(name, self._layers)

    def activate(self, name: str | None) -> bool:
        """Computes with the adapter `name`, or with the base weights alone, from here on; returns whether that is a
        change.

        Raises:
            OptionError: there is no such adapter.
        """
        if name == self._active and not self._mixed:
            return False
        self.check(name)
        before = [self._active] if not self._mixed else list(self._layers)
        self._mixed = True
        for known in before:
            self._take_off(self._layers[known] if known is not None else {})
        for place, layer in self._layers.get(name, {}).items() if name is not None else ():
            put_layer(self._model, place, layer)
        self._active, self._mixed = name, False
        return True

    def _take_off(self, layers: Mapping[str, LoraLinear | LoraExperts]) -> None:
        for place, layer in layers.items():
            put_layer(self._model, place, layer.base)
