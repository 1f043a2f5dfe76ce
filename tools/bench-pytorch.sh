#!/bin/sh
# bench-pytorch.sh [OPTION...] -- PyTorch scripts with and without zico; options as in
# bench/pytorch_share.py.  First what a small allocation costs under the hook.
set -eu
: "${ZI_BUILD_DIR:?run it by make bench-pytorch}"
"$ZI_BUILD_DIR/bench/hook_cost"
exec /usr/bin/python3 "$ZI_SOURCE_DIR/bench/pytorch_share.py" "$@"
