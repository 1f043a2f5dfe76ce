#!/bin/sh
# setup.sh -- install what is missing from the distribution, and say what is done.
#
#   tools/setup.sh          everything that `make test` and `make bench` need
#   tools/setup.sh --run    only what building and `make run` need
#   tools/setup.sh --list   print the packages and install nothing
#
# Asks the package database first, so that nothing is fetched when all is there.
set -eu

run="gcc make cmake ninja-build pkg-config libdnnl-dev libprotobuf-c-dev
     protobuf-c-compiler protobuf-compiler libonnx-dev libcyaml-dev libcmocka-dev python3"
test="g++ binutils clang libclang-rt-14-dev clang-format libomp-dev python3-onnx
      libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0 python3-torch python3-torchvision libopenblas0-pthread
      python3-numpy python3-pytest darknet zstd librsvg2-bin valgrind util-linux"

case "${1:-}" in
    --run) want=$run ;;
    ""|--test) want="$run $test" ;;
    --list) echo $run $test; exit 0 ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "setup: not a Debian system; please install the counterparts of:" $want >&2
    exit 0
fi

missing=
for p in $want; do
    case "$(dpkg-query -W -f '${Status}\n' "$p" 2>/dev/null || true)" in
        *"install ok installed"*) ;;
        *) missing="$missing $p" ;;
    esac
done
if [ -z "$missing" ]; then
    echo "setup: everything is installed"
    exit 0
fi

sudo=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
        echo "setup: not root and no sudo; please install:$missing" >&2
        exit 1
    }
    sudo=sudo
fi
echo "setup: installing$missing"
$sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
echo "setup: done"
