"""Writes the kernel that mixes rows of a table of bytes in tiles, by AMX (see `mixing_writer`)."""

from llvmlite import ir

from gesso.kernels.host import amx
from gesso.kernels.host.dots import FLOATS, WHOLES
from gesso.kernels.host.llvm_ir import F32, I8, I32, Loop, Value, constant, constants
from gesso.kernels.host.mixing_weights import PARTS, ROWS, STEP
from gesso.kernels.host.mixing_writer import COLUMNS, MixWriter

_SUMS, _WEIGHTS, _TABLE = (0, 1, 2, 3), (4, 5), (6, 7)
"""Tiles: of products with upper and with lower bytes, for two times sixteen columns; of these bytes; of the table."""
_TILE = amx.SIDE * amx.WIDTH
"""Bytes of a tile."""
_MADE = COLUMNS // amx.SIDE * len(_WEIGHTS)
"""Tiles that a block of the table makes of sixteen mixtures."""


class MixTiles(MixWriter):
    """Writes that kernel."""

    def __init__(self, module: ir.Module, name: str) -> None:
        used = dict.fromkeys((*_SUMS, *_WEIGHTS, *_TABLE), (amx.SIDE, amx.WIDTH))
        shapes = amx.write_configuration(module, f"{name}_shapes", used)
        super().__init__(module, name, "amx", spare=2 * _MADE * _TILE)
        amx.configure(self, shapes)
        self.write_loops()
        amx.release(self)
        self.ret_void()

    def mix(self, block: Value, sums: Value) -> None:
        # What a tile is written to is read a group later: memory does not pass it on at once.
        self._make(block, constant(0))
        group = Loop(self, constant(1), self.groups)
        self._make(block, group.index)
        self._add(block, self.sub(group.index, constant(1)), sums)
        group.close()
        self._add(block, self.sub(self.groups, constant(1)), sums)

    def _held(self, group: Value) -> Value:
        """Returns where the tiles of a group are written to."""
        return self.at(self.spare, self.mul(self.and_(group, constant(1)), constant(_MADE * _TILE)), I8)

    def _make(self, block: Value, group: Value) -> None:
        """Writes the products of a block of the table and of the weights of sixteen mixtures."""
        held, steps = self._held(group), ROWS // STEP
        place = self.mul(self.add(self.mul(group, self.blocks), block), constant(steps * PARTS))
        weights, apart = self.at(self.parts, place, I8), constant(amx.WIDTH)
        for pair in range(0, COLUMNS // amx.SIDE, len(_TABLE)):
            for total in _SUMS:
                amx.zero(self, total)
            for step in range(steps):
                for plane, tile in enumerate(_WEIGHTS):
                    amx.load(self, tile, self.at(weights, constant(step * PARTS + plane * _TILE), I8), apart)
                for i, tile in enumerate(_TABLE):
                    place = self.apart(pair + i) * amx.WIDTH + step * _TILE
                    amx.load(self, tile, self.at(self.near, constant(place), I8), apart)
                for i, total in enumerate(_SUMS):
                    amx.multiply(self, total, _WEIGHTS[i % 2], _TABLE[i // 2])
            for i, total in enumerate(_SUMS, 2 * pair):
                amx.store(self, total, self.at(held, constant(i * _TILE), I8), apart)

    def _add(self, block: Value, group: Value, sums: Value) -> None:
        """Adds what was made, times its scales."""
        lane = Loop(self, constant(0), constant(amx.SIDE))
        row = self.add(self.mul(group, constant(amx.SIDE)), lane.index)
        scale = self.read(self.scales, F32, self.add(self.mul(row, self.blocks), block))
        scale = self.splat(scale, amx.SIDE)
        own = self.at(sums, self.mul(row, constant(COLUMNS)), F32)
        made = self.at(self._held(group), self.mul(lane.index, constant(amx.WIDTH)), I8)
        for part in range(COLUMNS // amx.SIDE):
            planes = (self.at(made, constant((2 * part + plane) * _TILE), I8) for plane in range(2))
            upper, lower = (self.read(plane, WHOLES) for plane in planes)
            whole = self.add(self.shl(upper, constants([8] * amx.SIDE, I32)), lower)
            held = self.at(own, constant(part * amx.SIDE), F32)
            self.write(self.fma(self.sitofp(whole, FLOATS), scale, self.read(held, FLOATS)), held)
        lane.close()
