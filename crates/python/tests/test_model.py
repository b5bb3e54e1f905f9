"""Compares filters with an exact model."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstseen import Filter, Verdict

OPERATIONS = 100_000
WINDOW_S = 60


class Exact:
    """An event is a duplicate if an equal event was passed on less than a window before."""

    def __init__(self):
        self.passed_at = {}

    def observe(self, key, at):
        passed_at = self.passed_at.get(key)
        if passed_at is not None and at - passed_at < WINDOW_S:
            return Verdict.DUPLICATE
        self.passed_at[key] = at
        return Verdict.FIRST_SEEN


@pytest.mark.parametrize("kind", ["timing", "cuckoo"])
def test_a_sliding_window_misses_no_duplicate_and_has_few_false_ones(kind):
    """With the clock of the filter coarser than a second, the window lasts a little longer, and never less."""
    rng = random.Random(1)
    seen, exact = Filter(window="60s", capacity=20_000, fpr=1e-6, seed=1, kind=kind, lateness="0s"), Exact()
    at, wrong, left = 1_000_000.0, 0, OPERATIONS
    while left > 0:
        size = min(left, rng.randrange(1, 2_000))
        keys = [rng.randrange(10_000) for _ in range(size)]
        times = []
        for _ in keys:
            at += rng.random() / 100
            times.append(at)
        found = seen.verdicts(keys, at=times).tolist()
        for key, time, verdict in zip(keys, times, found, strict=True):
            passed_at = exact.passed_at.get(key)
            expected = exact.observe(key, time)
            if verdict == Verdict.FIRST_SEEN:
                exact.passed_at[key] = time
            if verdict == expected:
                continue
            assert expected == Verdict.FIRST_SEEN, f"a duplicate was missed: {key} at {time}"
            # The window ends with a tick of the filter, which can be up to an eighth longer.
            is_kept_longer = passed_at is not None and time - passed_at < WINDOW_S * 1.25
            wrong += not is_kept_longer
            exact.passed_at[key] = passed_at if passed_at is not None else float("-inf")
        left -= size
    assert wrong <= 5


@given(st.lists(st.lists(st.tuples(st.text(max_size=4), st.binary(max_size=3)), max_size=50), max_size=10))
def test_an_unbounded_filter_is_a_set(batches):
    seen, exact = Filter(capacity=10_000, fpr=1e-12, seed=3), set()
    for batch in batches:
        expected = []
        for key in batch:
            expected.append(key not in exact)
            exact.add(key)
        assert list(seen.observe_batch(batch)) == expected
    assert all(key in seen for key in exact)
