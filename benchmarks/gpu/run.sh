#!/usr/bin/env bash
# Checks kernels, the engine and training against the CPU, and measures the published 26B shape, on one GPU.
#
#   benchmarks/gpu/run.sh [OUT]
#
# OUT (gpu-results by default) gets a text file of each part; each ends in one JSON line. Options of the parts go into
# TRAIN_ARGS, MODEL_ARGS and, for experts that stream, OFFLOAD_ARGS (its checkpoint takes 16 GB of disk; --folder keeps
# it); `skip` leaves a part out. PYTHON is an interpreter (by default that of .venv, where make has built one). Ends with
# 2 where there is no GPU, with 1 where a check fails.
set -euo pipefail

out=${1:-gpu-results}
here=$(cd "$(dirname "$0")" && pwd)
own=$here/../../.venv/bin/python
python=${PYTHON:-$([ -x "$own" ] && echo "$own" || echo python3)}
"$python" -c 'import gesso' 2>/dev/null || { echo "gesso is not installed for $python: run make run, or set PYTHON" >&2; exit 2; }

"$python" "$here/kernels.py" --probe
mkdir -p "$out"
"$python" "$here/kernels.py" | tee "$out/kernels.txt"
"$python" "$here/engine.py" | tee "$out/engine.txt"
for part in train model offload; do
  name=${part^^}_ARGS
  arguments=${!name:-}
  if [ "$arguments" != skip ]; then
    # shellcheck disable=SC2086 # several options
    "$python" "$here/$part.py" $arguments | tee "$out/$part.txt"
  fi
done
