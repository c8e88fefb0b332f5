"""Changes small Python functions as an instruction says.

`skill` is the task; `kinds` changes any function, `forms` functions that `bodies` draws for it, with `names`, `signs`,
`places`, `told` and `rewritings`.
"""
