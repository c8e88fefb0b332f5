"""Plans how many servers so many users need: by what a step costs, and by a simulation of users and faults.

`machines`, `cost` and `traffic` -> `simulation` -> `plan`; docs/scale.md.
"""
