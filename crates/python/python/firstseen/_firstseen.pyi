from asyncio import AbstractEventLoop
from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal, final

from firstseen._types import ClusterInfo, Column, Key, Kind, Plan, Stats, Time, Unjudged
from firstseen._verdict import Verdict

__all__ = ["Filter", "Grant", "Session", "__version__", "connect", "plan"]
__version__: str

def plan(
    *,
    window: str = "unbounded",
    capacity: int | None = None,
    fpr: float = 0.01,
    kind: Kind | None = None,
    memory: int | None = None,
    lateness: str | None = None,
) -> Plan:
    """What a filter with these settings would be, without building it."""

@final
class Filter:
    def __new__(
        cls,
        *,
        window: str = "unbounded",
        capacity: int | None = None,
        fpr: float = 0.01,
        kind: Kind | None = None,
        memory: int | None = None,
        lateness: str | None = None,
        future_max: str | None = None,
        rule: Literal["fixed", "refresh"] = "fixed",
        seed: int | None = None,
        key: Sequence[str] | None = None,
    ) -> Filter: ...
    def add(self, key: Key, at: Time | None = None) -> bool: ...
    def observe(self, key: Key, at: Time | None = None) -> Verdict: ...
    def test(self, key: Key, at: Time | None = None) -> Verdict: ...
    def __contains__(self, key: Key, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def observe_batch(self, *keys: Column, at: Column | Time | None = None, unjudged: Unjudged = "pass") -> Any: ...
    def test_batch(self, *keys: Column, at: Column | Time | None = None, unjudged: Unjudged = "pass") -> Any: ...
    def verdicts(self, *keys: Column, at: Column | Time | None = None) -> Any: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    @staticmethod
    def load(path: str | PathLike[str]) -> Filter: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(data: bytes) -> Filter: ...
    def stats(self) -> Stats: ...
    @property
    def seed(self) -> int: ...
    @property
    def key(self) -> str: ...

def connect(
    addresses: Sequence[str],
    filter: str,
    *,
    site: str | None,
    tls_ca: str | PathLike[str] | None,
    tls_cert: str | PathLike[str] | None,
    tls_key: str | PathLike[str] | None,
    token_file: str | PathLike[str] | None,
    timeout_s: float,
    calls_in_flight_max: int,
    event_loop: AbstractEventLoop | None = None,
) -> Any: ...

@final
class Grant:
    @property
    def fence(self) -> bytes: ...
    @property
    def left_s(self) -> float: ...
    @property
    def is_held(self) -> bool: ...
    def keep(self) -> None: ...
    def release_later(self) -> None: ...

@final
class Session:
    def judge(
        self, key: Key, at: Time | None, is_recorded: bool, event_loop: AbstractEventLoop | None = None
    ) -> Any: ...
    def judge_batch(
        self,
        keys: tuple[Column, ...],
        at: Column | Time | None,
        is_recorded: bool,
        unjudged: Unjudged | None,
        event_loop: AbstractEventLoop | None = None,
    ) -> Any: ...
    def claim(
        self,
        keys: tuple[Column, ...],
        at: Column | Time | None,
        lease_s: float,
        event_loop: AbstractEventLoop | None = None,
    ) -> Any: ...
    def settle(
        self, grants: Sequence[Grant], is_confirmed: bool, event_loop: AbstractEventLoop | None = None
    ) -> Any: ...
    def settle_fences(
        self,
        keys: tuple[Column, ...],
        fences: Sequence[bytes],
        at: Column | Time | None,
        is_confirmed: bool,
        event_loop: AbstractEventLoop | None = None,
    ) -> Any: ...
    def info(self) -> ClusterInfo: ...
    @property
    def calls_in_flight(self) -> int: ...
    def close(self, within_s: float, event_loop: AbstractEventLoop | None = None) -> Any: ...
