"""The class Filter, with keys and times of all types."""

import copy
import datetime
import enum
import pickle
import threading

import numpy
import pandas
import polars
import pyarrow
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

import firstseen
from firstseen import Filter, Verdict

UTC = datetime.timezone.utc


def small(**settings):
    return Filter(**{"capacity": 10_000, "fpr": 1e-9, "seed": 7, **settings})


def test_a_key_is_new_once():
    seen = small()
    assert seen.add("click-1") is True
    assert seen.add("click-1") is False
    assert "click-1" in seen and "click-2" not in seen
    assert seen.observe("click-2") is Verdict.FIRST_SEEN
    assert seen.observe("click-2") is Verdict.DUPLICATE


def test_types_with_the_same_text_are_the_same_key():
    seen = small()
    assert seen.add("17")
    for same in [b"17", bytearray(b"17"), 17, ("17",)]:
        assert not seen.add(same), same
    for other in [("17", ""), ("1", "7"), "017", -17, 2**70]:
        assert seen.add(other), other
    assert str(2**70) in seen


@pytest.mark.parametrize("key", [1.5, object(), [], ("a", 1.5), float("inf")])
def test_other_types_are_no_keys(key):
    with pytest.raises(TypeError, match="a key cannot be a"):
        small().add(key)


def test_a_string_is_no_batch():
    with pytest.raises(TypeError, match="a batch is a list of keys"):
        small().observe_batch("click-1")
    with pytest.raises(TypeError, match="at least one column"):
        small().observe_batch()


COLUMNS = {
    "list": lambda keys: keys,
    "tuple": tuple,
    "generator": iter,
    "numpy text": numpy.array,
    "numpy objects": lambda keys: numpy.array(keys, dtype=object),
    "pandas": pandas.Series,
    "polars": polars.Series,
    "polars categories": lambda keys: polars.Series(keys, dtype=polars.Categorical),
    "pyarrow": pyarrow.array,
    "pyarrow large": lambda keys: pyarrow.array(keys, pyarrow.large_string()),
    "pyarrow view": lambda keys: pyarrow.array(keys, pyarrow.string_view()),
    "pyarrow bytes": lambda keys: pyarrow.array([key.encode() for key in keys]),
    "pyarrow chunks": lambda keys: pyarrow.chunked_array([keys[:2], [], keys[2:]], pyarrow.string()),
    "pyarrow dictionary": lambda keys: pyarrow.array(keys).dictionary_encode(),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_batch_gives_the_answers_of_single_events(column):
    keys = ["a", "b", "a", "", "longer than twelve bytes", "", "é"]
    seen, one_by_one = small(), small()
    mask = seen.observe_batch(column(keys))
    assert mask.dtype == bool and mask.tolist() == [one_by_one.add(key) for key in keys]
    assert mask.tolist() == [True, True, False, True, True, False, True]
    assert not seen.test_batch(keys).any()


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers_are_hashed_as_their_digits(kind):
    seen = small()
    assert seen.observe_batch(["1", "2", "100"]).all()
    for column in [pyarrow.array([1, 2, 100], kind), numpy.array([1, 2, 100], kind), polars.Series([1, 2, 100])]:
        assert not seen.observe_batch(column).any()


def test_a_key_of_several_columns_is_the_tuple_of_its_values():
    users, ads = ["u1", "u1", "u2", "u1"], ["a", "b", "a", "a"]
    for make in [list, pyarrow.array, polars.Series]:
        seen = small()
        assert seen.observe_batch(make(users), make(ads)).tolist() == [True, True, True, False]
        assert ("u1", "a") in seen and ("u1a",) not in seen
    for column in [pyarrow.array(ads), pyarrow.chunked_array([ads[:1], ads[1:]])]:
        for columns in [(users, column), (iter(users), column)]:
            assert small().observe_batch(*columns).tolist() == [True, True, True, False]
    with pytest.raises(ValueError, match="3 and 2 values"):
        small().observe_batch(["a", "b", "c"], ["a", "b"])


class Number(enum.IntEnum):
    SEVENTEEN = 17


def test_numbers_of_numpy_enums_and_whole_floats_are_integers():
    seen = small()
    assert seen.add("17")
    for same in [numpy.int64(17), numpy.uint8(17), Number.SEVENTEEN, 17.0, numpy.float64(17.0)]:
        assert not seen.add(same), repr(same)
    assert not seen.observe_batch([numpy.int64(17), numpy.str_("17"), numpy.bytes_(b"17")]).any()
    assert seen.observe_batch(pandas.Series([1, None, 17], dtype=object)).tolist() == [True, True, False]


@pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA, pandas.NaT])
def test_events_without_a_key_are_passed_on_unless_they_are_unwanted(missing):
    keys = ["a", missing, missing, "a"]
    assert small().observe_batch(keys).tolist() == [True, True, True, False]
    assert small().observe_batch(keys, unjudged="drop").tolist() == [True, False, False, False]
    assert small().verdicts(keys).tolist() == [Verdict.FIRST_SEEN, Verdict.NO_KEY, Verdict.NO_KEY, Verdict.DUPLICATE]
    seen = small()
    with pytest.raises(firstseen.UndecidedError, match="event 1 cannot be judged: its key is missing") as raised:
        seen.observe_batch(keys, unjudged="fail")
    assert raised.value.verdicts.tolist() == [1, 5, 5, 0]
    assert "a" in seen, "the other events are recorded"
    assert small().observe_batch(pyarrow.array(["a", None]), unjudged="drop").tolist() == [True, False]
    assert small().observe_batch(pyarrow.array(["a", "b"]), pyarrow.array([None, "b"])).tolist() == [True, True]


TIMES = {
    "numbers": lambda seconds: seconds,
    "datetimes": lambda seconds: [datetime.datetime.fromtimestamp(at, UTC) for at in seconds],
    "numpy seconds": numpy.array,
    "numpy moments": lambda seconds: numpy.array([int(at * 1000) for at in seconds], "datetime64[ms]"),
    "pandas": lambda seconds: pandas.Series(pandas.to_datetime(seconds, unit="s", utc=True)),
    "polars": lambda seconds: polars.Series([int(at * 1e6) for at in seconds]).cast(polars.Datetime("us")),
    "pyarrow": lambda seconds: pyarrow.array([int(at * 1e9) for at in seconds], pyarrow.timestamp("ns", "Asia/Tokyo")),
    "pyarrow seconds": lambda seconds: pyarrow.array(seconds),
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_a_window_is_measured_in_the_times_of_events(times):
    seen = small(window="1h")
    start = 1_764_500_000.0
    at = times([start, start + 3_599, start + 3_601, start + 3_602])
    assert seen.observe_batch(["a", "a", "b", "b"], at=at).tolist() == [True, False, True, False]
    assert seen.stats()["clock"] == start + 3_602
    assert seen.add("a", at=start + 7_200)


def test_missing_and_impossible_times_are_named():
    seen = small(window="1h")
    assert seen.verdicts(["a", "b"], at=[1.0, None]).tolist() == [Verdict.FIRST_SEEN, Verdict.NO_TIME]
    assert seen.verdicts(["c"], at=pyarrow.array([None], pyarrow.timestamp("s"))).tolist() == [Verdict.NO_TIME]
    assert seen.verdicts(["d"], at=[pandas.NaT]).tolist() == [Verdict.NO_TIME]
    for at, words in [
        (-1.0, "before 1970"),
        (float("inf"), "not milliseconds"),
        (1_764_500_000_000, "not milliseconds"),
        (pyarrow.array([1_764_500_000_000]), "not milliseconds"),
        ([1.0, 2.0], "2 times for 1"),
    ]:
        with pytest.raises(ValueError, match=words):
            seen.observe_batch(["a"], at=at)
    with pytest.raises(ValueError, match="before 1970"):
        seen.observe_batch(["a"], at=pyarrow.array([-1], pyarrow.timestamp("s")))
    assert seen.observe_batch(["e"], at=numpy.datetime64("1970-01-01T00:00:02")).tolist() == [True]
    for at in ["noon", ["noon"], object()]:
        with pytest.raises(TypeError, match="is not a time"):
            seen.observe_batch(["a"], at=at)
    with pytest.raises(TypeError, match="Arrow type Utf8"):
        seen.observe_batch(["a"], at=pyarrow.array(["noon"]))


def test_late_events_are_passed_on_and_counted():
    seen = small(window="1h", lateness="1m")
    assert seen.add("a", at=1_000_000)
    with pytest.raises(firstseen.UndecidedError, match="older than the window"):
        seen.add("b", at=900_000)
    assert seen.observe("b", at=900_000) is Verdict.LATE
    assert seen.observe_batch(["b"], at=900_000).tolist() == [True]
    assert seen.stats()["undecided"] == 3


def test_events_without_times_happen_now():
    seen = small(window="1h")
    before = datetime.datetime.now(UTC).timestamp()
    assert seen.add("a") and not seen.add("a") and "a" in seen
    assert before - 1 <= seen.stats()["clock"] <= datetime.datetime.now(UTC).timestamp() + 1


def test_lookups_without_a_time_are_about_now():
    seen = small(window="1h")
    seen.add("a", at=1_000_000)
    assert "a" not in seen, "that was decades ago"
    assert seen.test("a", at=1_003_000) is Verdict.DUPLICATE
    assert seen.test("a", at=1_010_000) is Verdict.FIRST_SEEN


def test_a_lookup_changes_no_later_verdict():
    """A lookup of a later time once made repeats of earlier times late, so that they passed as new."""
    seen = Filter(window="1h", fpr=1e-6, seed=7, kind="timing")
    keys = list(range(2_000_000))
    seen.observe_batch(keys, at=1_000_000)
    assert seen.test("other", at=1_100_000) is Verdict.FIRST_SEEN
    assert not seen.observe_batch(keys[:1_000], at=1_000_001).any()
    assert seen.test(5, at=1_000_001) is Verdict.DUPLICATE


def test_a_full_filter_says_so():
    full = small(capacity=10, kind="bloom")
    with pytest.raises(firstseen.FilterFull, match="larger capacity"):
        full.observe_batch(list(range(1_000)), unjudged="fail")
    with pytest.raises(firstseen.FilterFull):
        full.add("new")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"window": "1 fortnight"}, "window"),
        ({"fpr": 2.0}, "rate"),
        ({"kind": "blum"}, "`blum` is not one of bloom"),
        ({"rule": "never"}, "rule"),
        ({"lateness": "soon", "window": "1h"}, "lateness: `soon` is no duration"),
        ({"memory": 1_000_000, "capacity": 10}, "memory"),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(firstseen.DefinitionError, match=words):
        small(**settings)
    with pytest.raises(ValueError):
        small(**settings)


def test_the_plan_is_what_is_built():
    for settings in [{}, {"window": "24h"}, {"window": "24h", "kind": "timing"}]:
        plan = firstseen.plan(capacity=1_000_000, fpr=1e-3, **settings)
        stats = Filter(capacity=1_000_000, fpr=1e-3, **settings).stats()
        assert {name: stats[name] for name in plan} == plan


def test_copies_and_pickles_continue_alone():
    seen = small(window="1h")
    seen.add("a", at=1_000)
    for twin in [pickle.loads(pickle.dumps(seen)), copy.deepcopy(seen), Filter.from_bytes(seen.to_bytes())]:
        assert not twin.add("a", at=1_001) and twin.add("b", at=1_002)
        assert twin.seed == 7 and repr(twin) == repr(seen)
    assert seen.add("b", at=1_002)


@given(st.binary(max_size=300), st.integers(0, 2**16), st.integers(0, 255))
def test_damaged_bytes_are_refused(tail, place, byte):
    good = bytearray(small(capacity=100).to_bytes())
    for data in [tail, bytes(good) + tail[:1] + b"x", bytes(good[: place % len(good)])]:
        with pytest.raises(firstseen.StateError):
            Filter.from_bytes(data)
    good[place % len(good)] ^= byte | 1
    with pytest.raises(firstseen.StateError):
        Filter.from_bytes(bytes(good))


def test_a_header_does_not_decide_how_much_memory_is_taken():
    data = small(capacity=10_000, kind="bloom").to_bytes()
    huge = Filter.from_bytes(data).stats()["memory_bytes"]
    assert huge < 100_000
    start = data.index(b"{")
    length = int.from_bytes(data[12:16], "little")
    header = data[start : start + length]
    cells = b'"cells":' + header.split(b'"cells":')[-1].split(b",")[0].split(b"}")[0]
    grown = header.replace(cells, cells + b"000000")
    assert grown != header
    # The checksum of the header is wrong now, so the test computes it as the format describes.
    forged = data[:12] + len(grown).to_bytes(4, "little") + grown
    forged += xxhash.xxh3_64(grown).intdigest().to_bytes(8, "little") + data[start + length + 8 :]
    with pytest.raises(firstseen.StateError, match="too short for its cells"):
        Filter.from_bytes(forged)


def test_threads_share_a_filter():
    seen = Filter(capacity=1_000_000, fpr=1e-9, seed=7)
    new = [0] * 4

    def work(thread):
        for start in range(0, 20_000, 1_000):
            new[thread] += int(seen.observe_batch(list(range(start, start + 1_000))).sum())

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(new) == 20_000
