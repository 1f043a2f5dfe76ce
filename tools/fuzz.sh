#!/bin/sh
# fuzz.sh [SECONDS [NAME...]] -- libFuzzer on each target in turn; default 60 seconds each.
#
# New inputs that reach new code are kept in build/fuzz/corpus/NAME; an input that fails is
# written to build/fuzz/ and belongs, once mended, in tests/fuzz/corpus/NAME.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -gt 0 ] && shift
cmake --preset fuzz >/dev/null
# shellcheck disable=SC2046 # one word a target
cmake --build --preset fuzz --target $(basename -s .c tests/fuzz/*_fuzz.c)
bad=0
for target in build/fuzz/tests/fuzz/*_fuzz; do
    [ -x "$target" ] || continue
    name=$(basename "$target" _fuzz)
    if [ $# -gt 0 ]; then case " $* " in *" $name "*) ;; *) continue ;; esac; fi
    mkdir -p "build/fuzz/corpus/$name"
    echo "== $name, $seconds s"
    "$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -verbosity=1 \
        -artifact_prefix="build/fuzz/$name-" "build/fuzz/corpus/$name" \
        "tests/fuzz/corpus/$name" 2>&1 | grep -vE '^#[0-9]+.*(NEW|REDUCE|RELOAD)|ecommended dictionary|# Uses:' || true
    ls build/fuzz/"$name"-crash-* build/fuzz/"$name"-timeout-* build/fuzz/"$name"-oom-* \
        build/fuzz/"$name"-leak-* 2>/dev/null && bad=1
done
exit $bad
