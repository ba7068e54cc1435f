"""Results as `strata bench --json` writes them: three contenders that completed and two that failed, with 1, 2 and 4
threads."""
import math

MIB = 1 << 20
RUNS = (1.0, 0.98, 1.03, 0.97, 1.01)  # the values of five runs, as shares of their median
THREADS = (1, 2, 4)
NS_PER_OP = (24.1, 31.3, 77.9)  # of the C library's malloc, with each of these numbers of threads
PEAK_MIB = (11.5, 20.0, 37.0)
# Time and memory as multiples of the C library's, and the part of its peak that each keeps.
TIMES = {"system": (1, 1, 1), "strata": (0.54, 0.44, 0.35), "mimalloc": (0.6, 0.48, 0.4)}
MEMORY = {"system": (1, 1, 1), "strata": (0.9, 0.88, 0.88), "mimalloc": (1.17, 1.19, 1.21)}
KEPT = {"system": 0.9, "strata": 0.3, "mimalloc": 0.88}
BEHIND = {
    "system": {"version": "glibc 2.36"},
    "strata": {"version": "0.1.0", "library": "/usr/local/lib/libstrata.so"},
    "mimalloc": {"version": "2.0.9+ds-2", "library": "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0"},
}
FAILED = (
    {"contender": "crasher", "version": "libcrasher.so.1", "library": "/home/me/libcrasher.so",
     "reason": "killed by SIGSEGV, in run 1 of 5", "last_output": "crasher: bad chunk\n"},
    {"contender": "overlaps", "version": "liboverlaps.so", "library": "/home/me/liboverlaps.so", "broken": True,
     "failed_allocations": 0,
     "reason": "corrupted memory: a block of 64 bytes changed while it was in use, in run 1 of 5"},
)


def medians(contender, i):
    ns = NS_PER_OP[i] * TIMES[contender][i]
    peak = round(PEAK_MIB[i] * MEMORY[contender][i] * MIB)
    return {"ns_per_op": ns, "ops_per_s": THREADS[i] * 1e9 / ns, "first_ns_per_op": 5 * ns, "alloc_p99_ns": 3 * ns,
            "startup_s": 0.0012, "peak_rss_bytes": peak, "after_rss_bytes": peak * KEPT[contender],
            "load_minor_faults": peak // 4096}


def latency(ns):
    """Most of the operations around `ns`, and a tail of slow ones."""
    edges = [ns * 2 ** (step / 16) for step in range(-8, 120)]
    counts = [round(600 * math.exp(-(step / 4) ** 2)) or 1 for step in range(-8, 119)]
    buckets = [[*around, count] for *around, count in zip(edges, edges[1:], counts)]
    count = sum(counts)

    def percentile(share):
        seen = 0
        return next(high for _, high, own in buckets if (seen := seen + own) >= share * count)

    return {"unit": "ns", "timer_cost_ns": 11.4, "count": count, "mean": 1.2 * ns, "max": edges[-1],
            "percentiles": {f"p{p}": percentile(p / 100) for p in (50, 95, 99, 99.9, 99.99)}, "buckets": buckets}


def timeline(peak, kept):
    points = [{"t_s": 0, "rss_bytes": 3 * MIB, "pss_bytes": 2 * MIB, "phase": "start"}]
    points += [{"t_s": step / 20, "rss_bytes": round(peak * (1 - 0.7 ** step)), "phase": "load"}
               for step in range(1, 21)]
    points += [{"t_s": 1 + step / 20, "rss_bytes": round(kept + (peak - kept) * 0.4 ** step), "phase": "after"}
               for step in range(1, 9)]
    points[-1]["pss_bytes"] = points[-1]["rss_bytes"]
    return [{**point, "minor_faults": point["rss_bytes"] // 4096, "major_faults": 0} for point in points]


def completed(contender, i):
    own, systems = medians(contender, i), medians("system", i)
    row = {
        "metrics": {name: {"median": value, "min": value * min(RUNS), "max": value * max(RUNS), "n": len(RUNS)}
                    for name, value in own.items()},
        "values": {name: [value * share for share in RUNS] for name, value in own.items()},
        "latencies": {"alloc": latency(own["ns_per_op"]), "free": latency(0.8 * own["ns_per_op"])},
        "timeline": timeline(own["peak_rss_bytes"], own["after_rss_bytes"]), "failed_allocations": 0, "ok": True}
    if contender != "system":
        row["ratios"] = {name: {"to": "system", "ratio": value / systems[name], "low": 0.96 * value / systems[name],
                                "high": 1.04 * value / systems[name], "n": len(RUNS)} for name, value in own.items()}
    return {"contender": contender, **BEHIND[contender], **row}


def example_results():
    rows = []
    for i, threads in enumerate(THREADS):
        params = {"threads": threads, "seconds": 1.0, "warmup": 1, "seed": 1, "sample_rate": 0.05, "runs": len(RUNS),
                  "size": 64, "size_dist": "mixed", "mode": "window", "window": 1024, "batch": 1000}
        own = [completed(contender, i) for contender in BEHIND]
        own += [{"metrics": {}, "ok": False, **failure} for failure in FAILED]
        rows += [{"scenario": "churn", "label": "before the change", "params": dict(params), **row} for row in own]
    machine = {"cpu": "Example CPU @ 2.50GHz", "architecture": "x86_64", "cores": 4, "memory_bytes": 16777216000,
               "page_bytes": 4096, "kernel": "Linux 6.1.0", "distribution": "Debian GNU/Linux 12 (bookworm)",
               "libc": "glibc 2.36", "thp": "madvise", "overcommit": "0"}
    return {"schema": "strata-results/1", "strata": "0.1.0", "machine": machine, "rows": rows}
