#!/usr/bin/env bash
# Checks every kernel against its reference and measures the published 26B shape, on one GPU.
#
#   benchmarks/gpu/run.sh [OUT]
#
# OUT (gpu-results by default) gets a text file of each part; each ends in one JSON line. Options of the second part go
# into MODEL_ARGS, those of the third, experts that stream, into OFFLOAD_ARGS (its checkpoint takes 16 GB of disk;
# --folder keeps it; OFFLOAD_ARGS=skip leaves the part out), an interpreter into PYTHON (by default that of .venv, where
# make has built one). Ends with 2 where there is no GPU, with 1 where a check fails.
set -euo pipefail

out=${1:-gpu-results}
here=$(cd "$(dirname "$0")" && pwd)
own=$here/../../.venv/bin/python
python=${PYTHON:-$([ -x "$own" ] && echo "$own" || echo python3)}
"$python" -c 'import gesso' 2>/dev/null || { echo "gesso is not installed for $python: run make run, or set PYTHON" >&2; exit 2; }

"$python" "$here/kernels.py" --probe
mkdir -p "$out"
"$python" "$here/kernels.py" | tee "$out/kernels.txt"
# shellcheck disable=SC2086 # several options
"$python" "$here/model.py" ${MODEL_ARGS:-} | tee "$out/model.txt"
if [ "${OFFLOAD_ARGS:-}" != skip ]; then
  # shellcheck disable=SC2086
  "$python" "$here/offload.py" ${OFFLOAD_ARGS:-} | tee "$out/offload.txt"
fi
