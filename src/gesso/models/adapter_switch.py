"""Several adapters on one set of weights, one of them active at a time."""

from collections.abc import Mapping
from pathlib import Path

from torch import nn

from gesso.errors import OptionError
from gesso.models.adapters import adapted, load_adapter
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn.lora import LoraExperts, LoraLinear


class AdapterSwitch:
    """Reads adapters at start; `activate` puts the layers of one in the place of those they wrap.

    The base weights are held once, and an adapter's deltas stay beside them, unmerged.
    """

    def __init__(self, model: DiffusionGemma, folders: Mapping[str, Path]) -> None:
        """Read every adapter; none is active yet.

        Raises:
            CheckpointError: an adapter is damaged or does not fit the model.
        """
        self._model = model
        self._layers: dict[str, dict[str, LoraLinear | LoraExperts]] = {}
        self._active: str | None = None
        for name, folder in folders.items():
            load_adapter(model, folder)
            self._layers[name] = dict(adapted(model))
            self._take_off(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._layers)

    def check(self, name: str | None) -> None:
        """Raises OptionError where there is no adapter of that name."""
        if name is not None and name not in self._layers:
            known = ", ".join(sorted(self._layers)) or "none"
            raise OptionError(f"no adapter {name!r}; known: {known}", option="adapter")

    def activate(self, name: str | None) -> None:
        """Compute with the adapter `name`, or with the base weights alone."""
        if name == self._active:
            return
        self.check(name)
        if self._active is not None:
            self._take_off(self._active)
        for place, layer in self._layers.get(name, {}).items() if name is not None else ():
            self._put(place, layer)
        self._active = name
        if self._model.replays is not None:
            self._model.replays.forget()

    def _take_off(self, name: str) -> None:
        for place, layer in self._layers[name].items():
            self._put(place, layer.base)

    def _put(self, place: str, module: nn.Module) -> None:
        parent, _, label = place.rpartition(".")
        setattr(self._model.get_submodule(parent), label, module)
