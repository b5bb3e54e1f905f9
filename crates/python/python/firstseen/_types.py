"""Types of arguments and results."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypedDict

Part: TypeAlias = str | bytes | bytearray | int
#: Key of one event. A tuple is a key of several parts.
Key: TypeAlias = Part | tuple[Part | None, ...] | None
#: Time of one event: seconds since 1970, or a moment.
Time: TypeAlias = float | datetime
#: Keys or times of a batch: an iterable, or an array of numpy or Arrow.
Column: TypeAlias = Iterable[Any] | Any
Unjudged: TypeAlias = Literal["pass", "drop", "fail"]
Kind: TypeAlias = Literal["bloom", "timing", "generations", "cuckoo", "counting", "stable"]


class Plan(TypedDict):
    """What a filter with some settings would be."""

    kind: str
    window: str
    capacity: int | None
    fpr: float
    memory_bytes: int


class Stats(TypedDict):
    """Properties of a filter."""

    kind: str
    window: str
    capacity: int | None
    fpr: float
    expected_fpr: float
    memory_bytes: int
    live_events: int | None
    clock: float | None
    first_seen: int
    duplicates: int
    undecided: int


class ClusterInfo(TypedDict):
    """Properties of a filter of a cluster."""

    name: str
    kind: str
    window: str
    capacity: int | None
    fpr: float
    #: Whether every event needs a time. Otherwise, times are ignored.
    needs_times: bool
    #: Longest lease of a claim in seconds, or ``None`` if events cannot be claimed.
    lease_max: float | None
