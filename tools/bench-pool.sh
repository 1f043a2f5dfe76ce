#!/bin/sh
# bench-pool.sh [--json] -- the figures of docs/benchmarks.md, section "Pool and leases".
#
# Runs bench/pool_alloc (arena, and malloc of glibc, jemalloc, mimalloc), bench/pool_lease
# and bench/pool_trace.  --json: one object with everything, for tools.
set -eu
cd "$(dirname "$0")/.."
build=${ZI_BUILD_DIR:-$PWD/build/release}
export ZI_SOURCE_DIR="$PWD"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

find_library() { ldconfig -p | awk -v n="$1" '$1 == n { print $NF; exit }'; }
jemalloc=$(find_library libjemalloc.so.2)
mimalloc=$(find_library libmimalloc.so.2.0)
[ -n "$mimalloc" ] || mimalloc=$(find_library libmimalloc.so.2)

"$build/bench/pool_alloc" --json > "$out/arena"
"$build/bench/pool_alloc" --malloc --json > "$out/glibc"
[ -z "$jemalloc" ] || LD_PRELOAD=$jemalloc "$build/bench/pool_alloc" --malloc --json > "$out/jemalloc"
[ -z "$mimalloc" ] || LD_PRELOAD=$mimalloc "$build/bench/pool_alloc" --malloc --json > "$out/mimalloc"
"$build/bench/pool_lease" --json > "$out/lease"
"$build/bench/pool_trace" --wire --json > "$out/trace" 2> /dev/null

exec /usr/bin/python3 - "$out" "${1:-}" <<'EOF'
import json, os, sys

folder, mode = sys.argv[1], sys.argv[2]
read = lambda name: json.load(open(os.path.join(folder, name)))
makers = [m for m in ("arena", "glibc", "jemalloc", "mimalloc")
          if os.path.exists(os.path.join(folder, m))]
alloc = {m: {(r["pattern"], r["touch"], r["threads"], r["size_bytes"]): r["ns"]
             for r in read(m)} for m in makers}
lease, traces = read("lease"), read("trace")

if mode == "--json":
    print(json.dumps({"alloc": {m: read(m) for m in makers}, "lease": lease, "trace": traces}))
    sys.exit()

def size(n):
    return f"{n >> 20} MiB" if n >= 1 << 20 else f"{n >> 10} KiB"

print("alloc + free, ns a pair (per thread)\n")
print("| pattern | touched | threads | size | " + " | ".join(makers) + " |")
print("| --- | --- | --- | --- |" + " ---: |" * len(makers))
for key in alloc["arena"]:
    pattern, touch, threads, n = key
    print(f"| {pattern} | {'each page' if touch else 'no'} | {threads} | {size(n)} | " +
          " | ".join(f"{alloc[m][key]:,.0f}" for m in makers) + " |")
print(f"\nping-pong {lease['ping_us']:.1f} us; lease {lease['lease_us']:.1f} us "
      f"({lease['lease_to_ping']:.2f}x); hand-over {lease['hand_over_us']:.1f} us "
      f"({lease['hand_over_to_ping']:.2f}x)\n")
print("| trace | peak live | region | leased/live, peak | leased/live, mean | waiting |")
print("| --- | ---: | ---: | ---: | ---: | ---: |")
for t in traces:
    wait = ", ".join(f"{100 * w:.2f} %" for w in t["wait_share"])
    print(f"| {t['trace']} | {t['peak_live_bytes'] / 2**20:.0f} MiB | {size(t['region_bytes'])} | "
          f"{t['leased_to_live_peak']:.3f} | {t['leased_to_live_mean']:.3f} | {wait} |")
EOF
