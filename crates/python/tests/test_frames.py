"""firstseen.dedup over data frames in batches."""

import pandas
import polars
import pyarrow
import pytest

import firstseen
from firstseen import Filter

ROWS = [{"user": "u1", "ad": "a", "n": 1}, {"user": "u1", "ad": "b", "n": 2}, {"user": "u1", "ad": "a", "n": 3}]
MAKERS = {
    "polars": (lambda rows: polars.DataFrame(rows), lambda frame: frame["n"].to_list()),
    "pandas": (lambda rows: pandas.DataFrame(rows), lambda frame: frame["n"].tolist()),
    "pyarrow table": (pyarrow.Table.from_pylist, lambda frame: frame["n"].to_pylist()),
    "pyarrow batch": (pyarrow.RecordBatch.from_pylist, lambda frame: frame["n"].to_pylist()),
}


@pytest.mark.parametrize(("make", "numbers"), MAKERS.values(), ids=MAKERS)
def test_rows_with_a_key_that_was_seen_are_left_out(make, numbers):
    seen = Filter(capacity=1000, fpr=1e-9, seed=7)
    batches = firstseen.dedup((make(rows) for rows in [ROWS, ROWS[1:]]), on=["user", "ad"], filter=seen)
    assert [numbers(batch) for batch in batches] == [[1, 2], []]
    by_user = firstseen.dedup([make(ROWS)], on="user", filter=Filter(capacity=1000, seed=7))
    assert [numbers(batch) for batch in by_user] == [[1]]


def test_a_batch_is_read_when_it_is_needed():
    read = []

    def batches():
        for number in range(3):
            read.append(number)
            yield pyarrow.table({"id": [number], "ts": pyarrow.array([number], pyarrow.timestamp("s"))})

    once = firstseen.dedup(batches(), on="id", at="ts", filter=Filter(window="1h", capacity=1000, seed=7))
    assert next(once).num_rows == 1 and read == [0]


def test_missing_columns_and_other_types_are_named():
    seen = Filter(capacity=1000, seed=7)
    with pytest.raises(KeyError, match="no column 'idd': the columns are user, ad, n"):
        next(firstseen.dedup([pyarrow.Table.from_pylist(ROWS)], on="idd", filter=seen))
    with pytest.raises(TypeError, match="a batch cannot be a dict"):
        next(firstseen.dedup([{"id": ["a"]}], on="id", filter=seen))
