"""Measures the Python package and `firstseen dedup` beside other tools, and prints one table.

Run it in an environment with a release build of the package and what requirements.txt names:

    python crates/python/benches/compare.py --binary target/release/firstseen --rows 20000000

Every figure is the median of several runs, which take turns. Each run is a process of its own, so that its memory can
be measured. A tool that is not installed is left out. `--keys-bench` names the program that
`cargo bench -p firstseen-embedded --bench keys --no-run` builds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

BATCH_EVENTS = 1 << 16
NOW_S = 1_764_500_000.0
FPR = 1e-3


def keys(batch: int) -> list[str]:
    """Keys of a batch. Each key occurs twice, in neighbouring batches."""
    first = (batch - batch % 2) * BATCH_EVENTS
    return [f"event-{event:010}" for event in range(first, first + BATCH_EVENTS)]


def batches(events: int) -> Iterator[list[str]]:
    yield from map(keys, range(events // BATCH_EVENTS))


def rate(events: int, judge: Callable[[object], object], convert: Callable[[list[str]], object] = list) -> dict:
    """Events per second of `judge`. Making and converting the keys does not count."""
    seconds = 0.0
    judged = 0
    for batch in batches(events):
        converted = convert(batch)
        started = time.perf_counter()
        judge(converted)
        seconds += time.perf_counter() - started
        judged += len(batch)
    return {"events_per_s": judged / seconds}


# Tasks. Each runs in a process of its own and returns its figures.


def ours(events: int, form: str) -> dict:
    import firstseen

    filter = firstseen.Filter(window="24h", capacity=events, fpr=FPR, seed=1)
    if form == "one by one":
        return rate(events, lambda batch: [filter.add(key, at=NOW_S) for key in batch])
    if form == "arrow":
        import pyarrow

        return rate(events, lambda batch: filter.observe_batch(batch, at=NOW_S), pyarrow.array)
    return rate(events, lambda batch: filter.observe_batch(batch, at=NOW_S))


def rbloom(events: int, form: str) -> dict:
    import rbloom as package

    filter = package.Bloom(events, FPR)
    if form == "one by one":

        def add(batch: list[str]) -> None:
            for key in batch:
                if key not in filter:
                    filter.add(key)

        return rate(events, add)
    return rate(events, filter.update)


def abloom(events: int, form: str) -> dict:
    import abloom as package

    filter = package.BloomFilter(events, FPR)
    if form == "one by one":

        def add(batch: list[str]) -> None:
            for key in batch:
                if key not in filter:
                    filter.add(key)

        return rate(events, add)
    return rate(events, filter.update)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory(events: int, what: str) -> dict:
    """Bytes a key of a day's window: what the process has grown by."""
    import psutil

    before = psutil.Process().memory_info().rss
    if what == "ours":
        import firstseen

        keep = firstseen.Filter(window="24h", capacity=events, fpr=FPR, seed=1)
        for batch in batches(events):
            keep.observe_batch(batch, at=NOW_S)
    elif what == "set":
        keep = set()
        for batch in batches(events):
            keep.update(batch)
    else:
        keep = {}
        for batch in batches(events):
            keep.update((key, NOW_S + 86_400.0) for key in batch)
    grown = psutil.Process().memory_info().rss - before
    distinct = events // BATCH_EVENTS // 2 * BATCH_EVENTS
    return {"bytes_per_key": grown / distinct}


def gil(events: int, threads: int) -> dict:
    """Rate of all threads together, each with a filter of its own."""
    import pyarrow

    import firstseen

    arrays = [pyarrow.array(batch) for batch in batches(events)]
    filters = [firstseen.Filter(window="24h", capacity=events, fpr=FPR, seed=1) for _ in range(threads)]

    def work(filter: firstseen.Filter) -> None:
        for array in arrays:
            filter.observe_batch(array, at=NOW_S)

    workers = [threading.Thread(target=work, args=(filter,)) for filter in filters]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - started
    return {"events_per_s": threads * sum(map(len, arrays)) / seconds}


def held_up(events: int) -> dict:
    """Share of its speed that a thread of Python keeps while another one judges large batches."""
    import pyarrow

    import firstseen

    array = pyarrow.array([f"event-{event:010}" for event in range(events)])
    filter = firstseen.Filter(window="24h", capacity=events, fpr=FPR, seed=1)
    ended = threading.Event()

    def judge() -> None:
        while not ended.is_set():
            filter.observe_batch(array, at=NOW_S)

    def count(seconds: float) -> float:
        steps = 0
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            steps += 1
        return steps / seconds

    alone = count(1.0)
    judging = threading.Thread(target=judge)
    judging.start()
    beside = count(2.0)
    ended.set()
    judging.join()
    return {"share": beside / alone}


def polars_unique(folder: str) -> dict:
    import polars

    started = time.perf_counter()
    polars.scan_parquet(f"{folder}/*.parquet").unique(subset=["id"], keep="first", maintain_order=True).sink_parquet(
        f"{folder}/out/polars.parquet"
    )
    return {"seconds": time.perf_counter() - started, "peak_bytes": peak_bytes()}


def duckdb_distinct(folder: str) -> dict:
    import duckdb

    started = time.perf_counter()
    duckdb.sql(
        f"COPY (SELECT DISTINCT ON (id) * FROM '{folder}/*.parquet') TO '{folder}/out/duckdb.parquet' (FORMAT parquet)"
    )
    return {"seconds": time.perf_counter() - started, "peak_bytes": peak_bytes()}


def make_folder(name: str, rows: int, files: int) -> dict:
    """Writes clicks in which a third of the identifiers are repetitions of earlier ones.

    It runs in a process of its own, because a process inherits the peak of the memory of its parent.
    """
    import numpy
    import polars

    folder = Path(name)
    random = numpy.random.default_rng(61)
    for file in range(files):
        first = file * (rows // files)
        number = numpy.arange(first, first + rows // files)
        repeats = random.random(len(number)) < 1 / 3
        source = numpy.where(repeats, (random.random(len(number)) * (number + 1)).astype(numpy.int64), number)
        frame = polars.DataFrame(
            {
                "id": polars.Series(source).cast(polars.String).str.pad_start(12, "0"),
                "user": random.integers(0, 1_000_000, len(number)),
                "ad": random.integers(0, 1_000, len(number)).astype(numpy.int32),
                "time": polars.Series(1_764_500_000_000 + number).cast(polars.Datetime("ms")),
                "page": polars.Series(random.integers(0, 5_000, len(number))).cast(polars.String),
            }
        )
        frame.write_parquet(folder / f"clicks-{file:02}.parquet", row_group_size=1 << 17)
    (folder / "out").mkdir()
    return {"files": files}


TASKS = {
    task.__name__: task
    for task in (ours, rbloom, abloom, memory, gil, held_up, make_folder, polars_unique, duckdb_distinct)
}


def run(task: str, *arguments: object) -> dict | None:
    """Runs a task in a process of its own. `None` means that it failed, for example because it is not installed."""
    command = [sys.executable, __file__, "--task", task, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{task} {arguments}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def run_dedup(binary: str, folder: str, rows: int) -> dict | None:
    """Runs `firstseen dedup` over the folder. Its memory without the filter is its peak less that of the filter."""
    files = sorted(str(path) for path in Path(folder).glob("*.parquet"))
    command = [binary, "dedup", "--key", "id", "--window", "unbounded", "--capacity", str(rows), "--fpr", str(FPR)]
    command += ["--seed", "1", "--report", "json", "--out", f"{folder}/out/ours.parquet", *files]
    started = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    errors = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if status != 0:
        print(errors, file=sys.stderr)
        return None
    report = json.loads(next(line for line in errors.splitlines() if line.startswith("{")))
    peak = used.ru_maxrss * 1024
    beyond_filter = peak - report["filter_bytes"]
    return {
        "seconds": seconds,
        "peak_bytes": peak,
        "beyond_filter_bytes": beyond_filter,
        "passed": report["first_seen"],
    }


def median(figures: list[dict | None], name: str) -> float | None:
    found = [figure[name] for figure in figures if figure is not None]
    return statistics.median(found) if found else None


def in_turns(rounds: int, measures: dict[str, Callable[[], dict | None]]) -> dict[str, list[dict | None]]:
    results: dict[str, list[dict | None]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            results[name].append(measure())
    return results


def show(title: str, lines: list[tuple[str, float | None, str]], base: str) -> None:
    """Prints a table whose last column is the ratio to the line `base`."""
    first = dict((name, value) for name, value, _ in lines).get(base)
    print(f"\n| {title} | | of {base} |\n|---|---|---|")
    for name, value, unit in lines:
        shown = "not installed, or failed" if value is None else f"{value:,.2f} {unit}"
        ratio = "" if value is None or not first else f"{value / first:.2f}"
        print(f"| {name} | {shown} | {ratio} |")


def measure_rates(arguments: argparse.Namespace) -> None:
    def bench() -> dict | None:
        if arguments.keys_bench is None:
            return None
        done = subprocess.run([arguments.keys_bench, str(arguments.events)], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    events = arguments.events
    results = in_turns(
        arguments.rounds,
        {
            "Rust": bench,
            "Arrow": lambda: run("ours", events, "arrow"),
            "lists": lambda: run("ours", events, "lists"),
            "rbloom lists": lambda: run("rbloom", events, "lists"),
            "abloom lists": lambda: run("abloom", events, "lists"),
            "one by one": lambda: run("ours", events, "one by one"),
            "rbloom one by one": lambda: run("rbloom", events, "one by one"),
            "abloom one by one": lambda: run("abloom", events, "one by one"),
        },
    )
    lines = [(name, median(figures, "events_per_s"), "events/s") for name, figures in results.items()]
    show("keys judged on one core", lines, "Rust")


def measure_memory(arguments: argparse.Namespace) -> None:
    names = {"firstseen": "ours", "`set`": "set", "`dict` of expiries": "dict"}
    results = in_turns(
        1, {name: lambda what=what: run("memory", arguments.events, what) for name, what in names.items()}
    )
    lines = [(name, median(figures, "bytes_per_key"), "bytes/key") for name, figures in results.items()]
    show("a day's window", lines, "firstseen")


def measure_threads(arguments: argparse.Namespace) -> None:
    events = arguments.events // 5
    results = in_turns(
        arguments.rounds, {"one thread": lambda: run("gil", events, 1), "two threads": lambda: run("gil", events, 2)}
    )
    lines = [(name, median(figures, "events_per_s"), "events/s") for name, figures in results.items()]
    show("threads with a filter each", lines, "one thread")
    beside = median([run("held_up", events) for _ in range(arguments.rounds)], "share")
    print(f"\nA thread that computes in Python keeps {beside:.2f} of its speed while another one judges batches.")


def measure_folder(arguments: argparse.Namespace) -> None:
    if arguments.binary is None:
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        if run("make_folder", name, arguments.rows, arguments.files) is None:
            return
        results = in_turns(
            arguments.rounds,
            {
                "`firstseen dedup`": lambda: run_dedup(arguments.binary, name, arguments.rows),
                "polars `unique`": lambda: run("polars_unique", name),
                "DuckDB `DISTINCT ON`": lambda: run("duckdb_distinct", name),
            },
        )
        rates = [
            (tool, arguments.rows / seconds if (seconds := median(figures, "seconds")) else None, "rows/s")
            for tool, figures in results.items()
        ]
        show(f"a folder of {arguments.rows:,} rows", rates, "`firstseen dedup`")
        peaks = [
            (tool, peak / 2**20 if (peak := median(figures, "peak_bytes")) else None, "MiB")
            for tool, figures in results.items()
        ]
        show("peak of memory", peaks, "`firstseen dedup`")
        beyond = median(results["`firstseen dedup`"], "beyond_filter_bytes")
        if beyond is not None:
            print(f"\n`firstseen dedup` needed {beyond / 2**20:.1f} MiB beyond its filter.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--binary", help="release build of firstseen, for the table of files")
    parser.add_argument("--keys-bench", help="program of the Rust benchmark `keys`")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="folder for the files, by default the system's for temporary files")
    parser.add_argument("--only", choices=["rates", "memory", "threads", "folder"], action="append")
    arguments = parser.parse_args()
    if arguments.task is not None:
        task, values = arguments.task
        print(json.dumps(TASKS[task](*json.loads(values))))
        return
    chosen = arguments.only or ["rates", "memory", "threads", "folder"]
    measures = {
        "rates": measure_rates,
        "memory": measure_memory,
        "threads": measure_threads,
        "folder": measure_folder,
    }
    for name in chosen:
        measures[name](arguments)


if __name__ == "__main__":
    main()
