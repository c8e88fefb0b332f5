"""Which layers of a model are held in few bits: `plan`; modelopt's checkpoints; `convert` makes a folder a smaller one."""
