#!/bin/sh
# bench-pool.sh [--json] -- the figures of docs/benchmarks.md, section "Pool and leases".
#
# Runs bench/pool_alloc (arena, and malloc of glibc, jemalloc, mimalloc), bench/pool_lease,
# bench/pool_trace and, for each policy, bench/broker_load; ends with each aim and what was
# measured.  About three minutes.  --json: one object with everything, for tools.
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
for policy in zico temporal spatial salus gandiva; do
    "$build/bench/broker_load" --jobs 200 --seconds 3 --policy "$policy" --json >> "$out/load"
done

exec /usr/bin/python3 - "$out" "${1:-}" <<'EOF'
import json, os, sys

folder, mode = sys.argv[1], sys.argv[2]
read = lambda name: json.load(open(os.path.join(folder, name)))
makers = [m for m in ("arena", "glibc", "jemalloc", "mimalloc")
          if os.path.exists(os.path.join(folder, m))]
alloc = {m: {(r["pattern"], r["touch"], r["threads"], r["size_bytes"]): r["ns"]
             for r in read(m)} for m in makers}
lease, traces = read("lease"), read("trace")
with open(os.path.join(folder, "load")) as f:
    load = [json.loads(line) for line in f]

# -- each aim, the worst figure measured, and whether it is met ---------------------------------
whole = [("mixed", 64 << 20), ("step", 64 << 20)]  # sizes from the whole range in one program


def least(other):
    """How much faster than another allocator, at the worst of the touched rows that are judged."""
    return min(alloc[other][p, True, n, size] / alloc["arena"][p, True, n, size]
               for p, size in whole for n in (1, 2))


aims = [("untouched pair, 64 KiB to 64 MiB, 1 and 2 threads, ns", "<", 100,
         max(ns for (p, touch, _, _), ns in alloc["arena"].items() if p == "pair" and not touch)),
        ("untouched, all sizes drawn in one program, ns", "<", 100,
         max(alloc["arena"][p, False, n, size] for p, size in whole for n in (1, 2)))]
aims += [(f"touched, all sizes drawn in one program, times faster than {m}", ">=",
          2 if m == "glibc" else 1, least(m)) for m in makers if m != "arena"]
aims += [("LEASE round trip / ping-pong", "<=", 2, lease["lease_to_ping"]),
         ("hand-over / ping-pong", "<=", 3, lease["hand_over_to_ping"]),
         ("leased / live at the peak, worst trace", "<=", 1.10,
          max(t["leased_to_live_peak"] for t in traces)),
         ("leased / live over the step, worst trace", "<=", 1.20,
          max(t["leased_to_live_mean"] for t in traces)),
         ("waiting on the wire, worst trace, %", "<", 0.5,
          max(100 * w for t in traces for w in t["wait_share"])),
         ("decision with 200 jobs, p99, worst policy, us", "<", 200,
          max(x["decide_p99_ns"] for x in load) / 1000),
         ("times over budget", "<=", 0, sum(x["over_budget"] for x in load))]
meets = {"<": lambda x, aim: x < aim, "<=": lambda x, aim: x <= aim, ">=": lambda x, aim: x >= aim}
aims = [{"aim": text, "is": sign, "than": aim, "measured": got, "met": meets[sign](got, aim)}
        for text, sign, aim, got in aims]

if mode == "--json":
    print(json.dumps({"alloc": {m: read(m) for m in makers}, "lease": lease, "trace": traces,
                      "load": load, "aims": aims}))
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
print("\n| policy, 200 jobs | decisions | p50 | p99 | over budget |")
print("| --- | ---: | ---: | ---: | ---: |")
for x in load:
    print(f"| {x['policy']} | {x['decisions']:,} | {x['decide_p50_ns'] / 1000:.0f} us | "
          f"{x['decide_p99_ns'] / 1000:.0f} us | {x['over_budget']} |")
print("\n| aim | | measured | |")
print("| --- | --- | ---: | --- |")
for a in aims:
    print(f"| {a['aim']} | {a['is']} {a['than']} | {a['measured']:.3g} | "
          f"{'met' if a['met'] else '**short**'} |")
EOF
