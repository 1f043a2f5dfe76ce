#!/bin/sh
# demo.sh BUILD -- what `make run` shows: the main job, as far as it exists.
set -eu
zico="$1/zico"
if [ -x "$zico" ]; then exec "$zico" demo; fi
echo "zico is built in $1; the zico command is not there yet." >&2
exit 1
