"""States that the Python package and the command `firstseen dedup` write for each other."""

import pytest

import firstseen
from firstseen import Filter

START_S = 1_764_500_000
#: Flags of the command, and the settings of the same filter.
FILTERS = {
    "bloom": (["--capacity", "1000"], {"capacity": 1000}),
    "sliding": (["--window", "1h", "--capacity", "100000"], {"window": "1h", "capacity": 100_000}),
    "timing": (
        ["--window", "1h", "--kind", "timing", "--capacity", "1000"],
        {"window": "1h", "kind": "timing", "capacity": 1000},
    ),
    "generations": (
        ["--window", "1h", "--kind", "generations", "--capacity", "1000"],
        {"window": "1h", "kind": "generations", "capacity": 1000},
    ),
    "events": (["--window", "1000events"], {"window": "1000events"}),
    "landmark": (["--window", "landmark:1h", "--capacity", "1000"], {"window": "landmark:1h", "capacity": 1000}),
    "days": (["--window", "landmark:day", "--capacity", "1000"], {"window": "landmark:day", "capacity": 1000}),
    "stable": (["--kind", "stable", "--memory", "1MiB"], {"kind": "stable", "memory": 1 << 20}),
}


def lines(first, last):
    return [f'{{"id":"k{number}","ts":{START_S + number}}}' for number in range(first, last)]


def keys(first, last):
    return [f"k{number}" for number in range(first, last)]


@pytest.mark.parametrize(("flags", "settings"), FILTERS.values(), ids=FILTERS)
def test_each_program_continues_the_filter_of_the_other(dedup, tmp_path, flags, settings):
    state = tmp_path / "seen.fs"
    command = ["--format", "jsonl", "--key", "id", "--time", "ts", "--seed", "7", "--state", "seen.fs", *flags]
    assert len(dedup(command, lines(0, 100))) == 100

    seen = Filter.load(state)
    assert (seen.seed, seen.key) == (7, "id")
    times = [START_S + number for number in range(50, 150)]
    assert seen.observe_batch(keys(50, 150), at=times).tolist() == [False] * 50 + [True] * 50
    seen.save(state)

    assert dedup(command, lines(100, 200)) == lines(150, 200)

    made = Filter(seed=7, key=["id"], **settings)
    made.observe_batch(keys(0, 100), at=[START_S + number for number in range(100)])
    made.save(state)
    assert dedup(command, lines(50, 150)) == lines(100, 150)


def test_a_key_of_several_fields_is_a_tuple(dedup, tmp_path):
    flags = ["--format", "csv", "--key", "user,ad", "--seed", "7", "--state", "seen.fs", "--capacity", "1000"]
    assert len(dedup(flags, ["user,ad", "u1,a", "u2,b"])) == 3
    seen = Filter.load(tmp_path / "seen.fs")
    assert seen.key == "user,ad"
    assert seen.observe_batch(["u1", "u1"], ["a", "b"]).tolist() == [False, True]


def test_another_filter_is_refused_by_the_command(dedup, tmp_path):
    Filter(capacity=1000, seed=7, key=["id"]).save(tmp_path / "seen.fs")
    with pytest.raises(AssertionError, match="holds another filter"):
        dedup(["--format", "jsonl", "--key", "other", "--seed", "7", "--state", "seen.fs", "--capacity", "1000"], [])


def test_files_are_replaced_whole_and_errors_name_them(tmp_path):
    path = tmp_path / "seen.fs"
    with pytest.raises(FileNotFoundError, match="seen.fs"):
        Filter.load(path)
    seen = Filter(capacity=1000, seed=7)
    seen.add("a")
    seen.save(path)
    seen.add("b")
    seen.save(str(path))
    assert "b" in Filter.load(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["seen.fs"]
    with pytest.raises(firstseen.StateError, match="cannot (save|create).*No such file"):
        seen.save(tmp_path / "missing" / "seen.fs")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(firstseen.StateError, match="cannot use the state .*seen.fs.*damaged"):
        Filter.load(path)
