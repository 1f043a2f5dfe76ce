#!/bin/bash
# run_tests.sh -- everything that must hold before a change goes in.
#
#   tools/run_tests.sh          what `make test` runs; under 15 minutes on 2 cores
#   tools/run_tests.sh --full   and the rest: all tests under ASan+UBSan, more under
#                               TSan, other seeds
#
# The last line is "N passed, N failed"; the exit code is 0 only if nothing failed.
set -u
cd "$(dirname "$0")/.."
full=${1:-}
passed=0
failed=0
notes=()

# count LABEL OUTPUT: read CTest's own summary.
count() {
    local line total bad
    line=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests? failed out of [0-9]+' "$2" | tail -1)
    if [ -z "$line" ]; then
        failed=$((failed + 1)); notes+=("$1: no result"); return 0
    fi
    bad=$(sed -E 's/.* ([0-9]+) tests? failed out of.*/\1/' <<<"$line")
    total=$(sed -E 's/.*out of ([0-9]+).*/\1/' <<<"$line")
    passed=$((passed + total - bad))
    failed=$((failed + bad))
    [ "$bad" -eq 0 ] || notes+=("$1: $(sed -n 's/^[\t ]*[0-9]* - \([^ ]*\) .*/\1/p' "$2" | tr '\n' ' ')")
}

# stage PRESET CTEST-ARGUMENTS...: configure, build, run.
stage() {
    local preset=$1 log
    shift
    log=build/test-$preset.log
    echo "== $preset: ctest $*"
    mkdir -p build
    if ! { cmake --preset "$preset" && cmake --build --preset "$preset"; } >"$log" 2>&1; then
        grep -E 'error|FAILED|undefined|CMake Error' "$log" | head -40
        failed=$((failed + 1)); notes+=("$preset: does not build, see $log"); return
    fi
    local run=()
    if [ "$preset" = tsan ] && setarch -R true 2>/dev/null; then
        run=(setarch -R) # some kernels' randomised layouts are too wide for TSan
    fi
    "${run[@]+"${run[@]}"}" ctest --preset "$preset" "$@" 2>&1 | tee "$log" | grep -vE '^ +Start +[0-9]+:'
    count "$preset" "$log"
}

[ "$full" = --full ] && export ZI_FULL=1 # tests that have more to try than time for it
stage dev
if [ "$full" = --full ]; then
    stage asan -LE no-asan
    export OMP_NUM_THREADS=1
    stage tsan -L 'uses-(client|broker|device|exec)' -LE no-tsan
    unset OMP_NUM_THREADS
    ZI_SEED=random stage dev -L 'unit|sim|fault'
else
    stage asan -L '^(unit|fault)$' -LE no-asan
    export OMP_NUM_THREADS=1
    stage tsan -L 'uses-(client|broker|device)' -LE no-tsan
    unset OMP_NUM_THREADS
fi

echo "== format (only tells)"
mapfile -t sources < <(git ls-files '*.c' '*.h')
if command -v clang-format >/dev/null && [ ${#sources[@]} -gt 0 ]; then
    off=$(clang-format --dry-run "${sources[@]}" 2>&1 | grep -oE '^[^:]+' | sort -u | grep -c . || true)
    echo "$off files differ from .clang-format (make format mends them)"
fi

for n in "${notes[@]+"${notes[@]}"}"; do echo "failed: $n"; done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
