"""Filters of a cluster, for programs with asyncio.

The class :class:`ClusterFilter` has the methods of :class:`firstseen.ClusterFilter` as coroutines. An event loop runs
other tasks while a call waits for the cluster. If a task is cancelled while it waits, its call still ends in the
background, because nodes may have received its events. A claim that is then granted is released at once.
"""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from os import PathLike
from types import TracebackType
from typing import Any, Generic, TypeVar

from firstseen import _firstseen
from firstseen._cluster import (
    CALLS_IN_FLIGHT_MAX,
    CLOSE_WITHIN_S,
    BaseClaim,
    addresses_of,
    check_arguments,
    grants_of,
    is_confirmed,
    is_new,
)
from firstseen._errors import Error
from firstseen._firstseen import Session
from firstseen._types import ClusterInfo, Column, Key, Time, Unjudged
from firstseen._verdict import Verdict

__all__ = ["Claim", "ClusterFilter", "connect"]


def connect(
    addresses: str | Iterable[str],
    filter: str,
    *,
    site: str | None = None,
    tls_ca: str | PathLike[str] | None = None,
    tls_cert: str | PathLike[str] | None = None,
    tls_key: str | PathLike[str] | None = None,
    token_file: str | PathLike[str] | None = None,
    timeout: float = 5.0,
    calls_in_flight_max: int = CALLS_IN_FLIGHT_MAX,
) -> Opening[ClusterFilter]:
    """Connects to a cluster, and returns its filter with the name ``filter``: use it with ``async with`` or ``await``.

    The arguments are those of :func:`firstseen.connect`. At most ``calls_in_flight_max`` calls of all tasks are in
    flight. Further calls wait. If a task is cancelled while its call waits, the call is never sent.
    """

    check_arguments(filter, calls_in_flight_max)
    nodes = addresses_of(addresses)

    async def start() -> ClusterFilter:
        session = await _firstseen.connect(
            nodes,
            filter,
            site=site,
            tls_ca=tls_ca,
            tls_cert=tls_cert,
            tls_key=tls_key,
            token_file=token_file,
            timeout_s=timeout,
            calls_in_flight_max=calls_in_flight_max,
            event_loop=get_running_loop(),
        )
        return ClusterFilter(session)

    return Opening(start)


class ClusterFilter:
    """A filter of a cluster. :func:`firstseen.aio.connect` returns it.

    The methods take the same arguments as those of :class:`firstseen.ClusterFilter`, and return the same results.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, key: Key, at: Time | None = None) -> bool:
        """Records an event, and returns whether it is new.

        Raises :class:`firstseen.UndecidedError` if the cluster cannot judge the event.
        """
        return is_new(await self._session.judge(key, at, True, get_running_loop()))

    async def observe(self, key: Key, at: Time | None = None) -> Verdict:
        """Records an event, and returns a verdict, which says why an event could not be judged."""
        return Verdict(await self._session.judge(key, at, True, get_running_loop()))

    async def test(self, key: Key, at: Time | None = None) -> Verdict:
        """Returns the verdict that an event would get, and records nothing."""
        return Verdict(await self._session.judge(key, at, False, get_running_loop()))

    async def contains(self, key: Key) -> bool:
        """Returns whether the event was seen, as the operator ``in`` does without asyncio.

        The result is false if the cluster cannot tell: see :meth:`test`.
        """
        return await self.test(key) is Verdict.DUPLICATE

    async def observe_batch(self, *keys: Column, at: Column | Time | None = None, unjudged: Unjudged = "pass") -> Any:
        """Records the events of a batch, and returns which of them are new.

        With ``unjudged="pass"``, the result is also true for events that another consumer has claimed. If the events of
        the filter are claimed, use :meth:`verdicts` or ``"fail"``.
        """
        return await self._session.judge_batch(keys, at, True, unjudged, get_running_loop())

    async def test_batch(self, *keys: Column, at: Column | Time | None = None, unjudged: Unjudged = "pass") -> Any:
        """Returns which events of a batch would be new, and records nothing."""
        return await self._session.judge_batch(keys, at, False, unjudged, get_running_loop())

    async def verdicts(self, *keys: Column, at: Column | Time | None = None) -> Any:
        """Records the events of a batch, and returns the numbers of their verdicts (:class:`firstseen.Verdict`)."""
        return await self._session.judge_batch(keys, at, True, None, get_running_loop())

    def claim(self, key: Key, *, lease: float, at: Time | None = None) -> Opening[Claim]:
        """Reserves an event for at most ``lease`` seconds: use it with ``async with`` or ``await``.

        Leaving the block releases the event, unless its delivery has begun. A cancelled claim is released.
        """

        async def start() -> Claim:
            return (await self.claim_batch([key], lease=lease, at=at))[0]

        return Opening(start)

    async def claim_batch(self, *keys: Column, lease: float, at: Column | Time | None = None) -> list[Claim]:
        """Claims the events of a batch, and returns a claim for each of them, in order."""
        answers = await self._session.claim(keys, at, lease, get_running_loop())
        return [Claim(self._session, *answer) for answer in answers]

    async def confirm_batch(self, claims: Iterable[BaseClaim]) -> Any:
        """Records the events of claims as delivered (:meth:`firstseen.ClusterFilter.confirm_batch`)."""
        return await self._session.settle(grants_of(claims, self._session), True, get_running_loop())

    async def release_batch(self, claims: Iterable[BaseClaim]) -> list[bool]:
        """Releases the events of claims, and returns for each of them whether this program still held it."""
        numbers = await self._session.settle(grants_of(claims, self._session), False, get_running_loop())
        return [bool(number) for number in numbers]

    async def confirm_fences(self, *keys: Column, fences: Sequence[bytes], at: Column | Time | None = None) -> Any:
        """Confirms events by their keys and fences (:meth:`firstseen.ClusterFilter.confirm_fences`)."""
        return await self._session.settle_fences(keys, fences, at, True, get_running_loop())

    async def release_fences(
        self, *keys: Column, fences: Sequence[bytes], at: Column | Time | None = None
    ) -> list[bool]:
        """Releases events by their keys and fences, and returns for each of them whether it was still held."""
        numbers = await self._session.settle_fences(keys, fences, at, False, get_running_loop())
        return [bool(number) for number in numbers]

    def info(self) -> ClusterInfo:
        """Returns the name and the definition of the filter, and whether its events need times."""
        return self._session.info()

    async def close(self, within: float = CLOSE_WITHIN_S) -> bool:
        """Closes the connection within ``within`` seconds, and returns whether everything was sent.

        It does not wait for calls that wait for their turn. These and later calls raise
        :class:`firstseen.ClusterError`.
        """
        return bool(await self._session.close(within, get_running_loop()))

    async def __aenter__(self) -> ClusterFilter:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class Claim(BaseClaim):
    """Answer to the claim of an event. It is true if the event is claimed, and releases the event when it is dropped.

    :meth:`firstseen.aio.ClusterFilter.claim` returns it.
    """

    async def confirm(self) -> bool:
        """Records the event as delivered. Returns whether this call recorded it; otherwise it was recorded before.

        Raises :class:`firstseen.LeaseLostError` if another consumer holds the event, and
        :class:`firstseen.UndecidedError` if the cluster cannot decide. You can then confirm again.
        """
        return is_confirmed((await self._session.settle([self._held()], True, get_running_loop()))[0])

    async def release(self) -> bool:
        """Releases the event, so that others can claim it. Returns whether this program still held it."""
        return bool((await self._session.settle([self._held()], False, get_running_loop()))[0])

    async def __aenter__(self) -> Claim:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._grant is None or not self._grant.is_held:
            return
        try:
            if kind is None or issubclass(kind, Exception):
                # If the release fails, the lease ends.
                with suppress(Error):
                    await self.release()
        finally:
            # The task is cancelled, perhaps while its release waited for its turn.
            self._grant.release_later()


Opened = TypeVar("Opened", bound=AbstractAsyncContextManager[Any])


class Opening(Generic[Opened]):
    """A connection or a claim that is about to be made: use it with ``async with`` or ``await``."""

    def __init__(self, start: Callable[[], Awaitable[Opened]]) -> None:
        self._start = start
        self._opened: Opened | None = None

    def __await__(self) -> Generator[Any, None, Opened]:
        return self._start().__await__()

    async def __aenter__(self) -> Opened:
        self._opened = await self._start()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, traceback)
