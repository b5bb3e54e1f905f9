"""Removes duplicate clicks from Parquet files in batches, and shows how many there were in each hour.

    pip install ./crates/python polars pyarrow
    python examples/duplicates_by_hour.py --make clicks.parquet      # writes clicks to try it with
    python examples/duplicates_by_hour.py clicks.parquet --out once.parquet

The files may be larger than memory. With matplotlib, `--plot duplicates.svg` draws the picture to a file.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path

import polars
from pyarrow.parquet import ParquetFile, ParquetWriter

import firstseen

BATCH_ROWS = 50_000
START = datetime(2026, 3, 2, tzinfo=timezone.utc)


def make(path: Path, clicks: int) -> None:
    """Writes the clicks of a day. Between 18 and 22 o'clock, a robot repeats every second click of the last minutes."""
    random.seed(61)
    rows: list[tuple[str, str, datetime]] = []
    for number in range(clicks):
        time = START + timedelta(days=1) * number / clicks
        repeats = 18 <= time.hour < 22 and random.random() < 0.5 or random.random() < 0.02
        user, ad = random.choice(rows[-200:])[:2] if repeats and rows else (f"u{number}", f"ad-{random.randrange(50)}")
        rows.append((user, ad, time))
    polars.DataFrame(rows, schema=["user", "ad", "time"], orient="row").write_parquet(path)


def remove_duplicates(files: list[Path], out: Path) -> tuple[Counter[datetime], Counter[datetime]]:
    """Writes each click once in an hour. Returns the numbers of clicks and of duplicates by hour."""
    filter = firstseen.Filter(window="1h", capacity=1_000_000, fpr=1e-6, key=["user", "ad"])
    clicks: Counter[datetime] = Counter()
    duplicates: Counter[datetime] = Counter()
    writer: ParquetWriter | None = None
    for file in files:
        for rows in ParquetFile(file).iter_batches(BATCH_ROWS):
            batch = polars.DataFrame(polars.from_arrow(rows))
            new = polars.Series(filter.observe_batch(batch["user"], batch["ad"], at=batch["time"]))
            once = batch.filter(new).to_arrow()
            writer = writer or ParquetWriter(out, once.schema)
            writer.write_table(once)
            hours = batch["time"].dt.truncate("1h")
            clicks.update(hours)
            duplicates.update(hours.filter(~new))
    if writer is not None:
        writer.close()
    return clicks, duplicates


def show(clicks: Counter[datetime], duplicates: Counter[datetime]) -> None:
    """Prints a bar for each hour."""
    print("hour    clicks  duplicates")
    for hour in sorted(clicks):
        share = duplicates[hour] / clicks[hour]
        print(f"{hour:%H:%M} {clicks[hour]:8} {duplicates[hour]:11} {'#' * round(40 * share)} {share:.1%}")


def plot(clicks: Counter[datetime], duplicates: Counter[datetime], path: Path) -> None:
    from matplotlib import pyplot

    hours = sorted(clicks)
    figure, axes = pyplot.subplots(figsize=(9, 3))
    axes.bar([f"{hour:%H}" for hour in hours], [100 * duplicates[hour] / clicks[hour] for hour in hours])
    axes.set(xlabel="hour", ylabel="duplicates (%)")
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="Parquet files with the columns user, ad and time")
    parser.add_argument("--out", type=Path, default=Path("once.parquet"), help="file for the clicks without duplicates")
    parser.add_argument("--plot", type=Path, help="file for a picture")
    parser.add_argument("--make", type=Path, help="write clicks to this file, and end")
    parser.add_argument("--clicks", type=int, default=200_000, help="number of clicks to write")
    arguments = parser.parse_args()
    if arguments.make is not None:
        make(arguments.make, arguments.clicks)
        return
    if not arguments.files:
        parser.error("name at least one file, or write one with --make")
    clicks, duplicates = remove_duplicates(arguments.files, arguments.out)
    show(clicks, duplicates)
    if arguments.plot is not None:
        plot(clicks, duplicates, arguments.plot)


if __name__ == "__main__":
    main()
