"""Filters of a cluster, for programs without asyncio."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from os import PathLike
from types import TracebackType
from typing import Any

from firstseen import _firstseen
from firstseen._errors import Error, LeaseLostError
from firstseen._firstseen import Grant, Session
from firstseen._types import ClusterInfo, Column, Key, Time, Unjudged
from firstseen._verdict import Verdict, error_about

#: Number of calls that one connection has in flight at most. Further calls wait.
CALLS_IN_FLIGHT_MAX = 1024
#: Largest number that ``calls_in_flight_max`` can have.
_CALLS_MAX = 2**31 - 1
#: Seconds that closing a connection waits at most until everything is sent.
CLOSE_WITHIN_S = 2.0


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
) -> ClusterFilter:
    """Connects to a cluster, and returns its filter with the name ``filter``.

    - ``addresses``: nodes of the cluster, such as ``"host:7400,host2:7400"`` or a list. One of them must answer.
    - ``site``: the site of this program, if the filter is a tree over many sites.
    - ``tls_ca``, ``tls_cert``, ``tls_key``: files with the certificate of the authority, and with the certificate and
      the key of this program. With a token, ``tls_ca`` is enough.
    - ``token_file``: a file with a token. Without it, the environment variable ``FIRSTSEEN_TOKEN`` is read.
    - ``timeout``: seconds after which an event without an answer is undecided, and connecting fails.
    - ``calls_in_flight_max``: number of calls of all threads that are in flight at most. Further calls wait.

    Raises :class:`firstseen.ClusterError` if no node answers, or if there is no such filter. Raises ``ValueError`` or
    ``TypeError`` if an argument is wrong, and also if the filter is a tree without a place for ``site``.
    """
    check_arguments(filter, calls_in_flight_max)
    session = _firstseen.connect(
        addresses_of(addresses),
        filter,
        site=site,
        tls_ca=tls_ca,
        tls_cert=tls_cert,
        tls_key=tls_key,
        token_file=token_file,
        timeout_s=timeout,
        calls_in_flight_max=calls_in_flight_max,
    )
    return ClusterFilter(session)


def addresses_of(addresses: str | Iterable[str]) -> list[str]:
    """Returns the addresses of nodes, which may be separated by commas."""
    parts = addresses.split(",") if isinstance(addresses, str) else list(addresses)
    for part in parts:
        if not isinstance(part, str):
            raise TypeError(f"addresses: {part!r} is not text such as 'host:7400'")
    named = [part.strip() for part in parts if part.strip()]
    if not named:
        raise ValueError("addresses: name at least one node, such as 'host:7400'")
    return named


def check_arguments(filter: str, calls_in_flight_max: int) -> None:
    """Raises an exception that names the argument which is wrong."""
    if not isinstance(filter, str):
        raise TypeError(f"filter: {filter!r} is not the name of a filter")
    if not filter:
        raise ValueError("filter: name a filter of the cluster")
    if not isinstance(calls_in_flight_max, int):
        raise TypeError(f"calls_in_flight_max: {calls_in_flight_max!r} is not a number of calls")
    if not 1 <= calls_in_flight_max <= _CALLS_MAX:
        raise ValueError(f"calls_in_flight_max: {calls_in_flight_max} must be between 1 and {_CALLS_MAX}")


class ClusterFilter:
    """A filter of a cluster. :func:`firstseen.connect` returns it.

    The methods take the same keys and times as those of :class:`firstseen.Filter`, and return the same shapes. Keys are
    hashed in this process, and never leave it. Events that the cluster cannot judge are undecided, for example because
    nodes do not answer within the timeout; :class:`firstseen.Verdict` names the reasons.

    Threads can share a filter. Other Python threads run while a call waits, and Ctrl-C ends the waiting. The events of
    such a call may still be recorded. After a fork, the new process must connect again.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, key: Key, at: Time | None = None) -> bool:
        """Records an event, and returns whether it is new.

        Raises :class:`firstseen.UndecidedError` if the cluster cannot judge the event.
        """
        return is_new(self._session.judge(key, at, True))

    def observe(self, key: Key, at: Time | None = None) -> Verdict:
        """Records an event, and returns a verdict, which says why an event could not be judged."""
        return Verdict(self._session.judge(key, at, True))

    def test(self, key: Key, at: Time | None = None) -> Verdict:
        """Returns the verdict that an event would get, and records nothing."""
        return Verdict(self._session.judge(key, at, False))

    def __contains__(self, key: Key) -> bool:
        """Returns whether the event was seen. The result is false if the cluster cannot tell: see :meth:`test`."""
        return self.test(key) is Verdict.DUPLICATE

    def observe_batch(self, *keys: Column, at: Column | Time | None = None, unjudged: Unjudged = "pass") -> Any:
        """Records the events of a batch, and returns which of them are new, as :meth:`firstseen.Filter.observe_batch`.

        ``unjudged`` says what the result contains for events that cannot be judged: ``"pass"``, ``"drop"`` or
        ``"fail"``. With ``"pass"``, the result is also true for events that another consumer has claimed. If the events
        of the filter are claimed, use :meth:`verdicts` or ``"fail"``.
        """
        return self._session.judge_batch(keys, at, True, unjudged)

    def test_batch(self, *keys: Column, at: Column | Time | None = None, unjudged: Unjudged = "pass") -> Any:
        """Returns which events of a batch would be new, and records nothing."""
        return self._session.judge_batch(keys, at, False, unjudged)

    def verdicts(self, *keys: Column, at: Column | Time | None = None) -> Any:
        """Records the events of a batch, and returns the numbers of their verdicts (:class:`firstseen.Verdict`)."""
        return self._session.judge_batch(keys, at, True, None)

    def claim(self, key: Key, *, lease: float, at: Time | None = None) -> Claim:
        """Reserves an event for at most ``lease`` seconds, so that only this program may deliver it.

        The result is true if the event is claimed. It is a context manager: leaving the block releases the event,
        unless its delivery has begun (:meth:`Claim.confirm`, :meth:`Claim.deliver`). So does dropping the claim.
        """
        return self.claim_batch([key], lease=lease, at=at)[0]

    def claim_batch(self, *keys: Column, lease: float, at: Column | Time | None = None) -> list[Claim]:
        """Claims the events of a batch, and returns a claim for each of them, in order."""
        return [Claim(self._session, *answer) for answer in self._session.claim(keys, at, lease)]

    def confirm_batch(self, claims: Iterable[BaseClaim]) -> Any:
        """Records the events of claims as delivered, and returns the number of a verdict for each of them.

        ``FIRST_SEEN`` means that the event is recorded now, and ``DUPLICATE`` that it was recorded before. ``CLAIMED``
        means that the lease is lost, because another consumer holds the event. Others are undecided, and can be
        confirmed again. If the call raises an exception, all claims are as before.
        """
        return self._session.settle(grants_of(claims, self._session), True)

    def release_batch(self, claims: Iterable[BaseClaim]) -> list[bool]:
        """Releases the events of claims, and returns for each of them whether this program still held it."""
        return [bool(number) for number in self._session.settle(grants_of(claims, self._session), False)]

    def confirm_fences(self, *keys: Column, fences: Sequence[bytes], at: Column | Time | None = None) -> Any:
        """Does what :meth:`confirm_batch` does, for events that are named by their keys and the fences of their claims.

        A program that was restarted can confirm the events that it delivered before. ``at`` are the times with which
        the events were claimed, if the filter needs times.
        """
        return self._session.settle_fences(keys, fences, at, True)

    def release_fences(self, *keys: Column, fences: Sequence[bytes], at: Column | Time | None = None) -> list[bool]:
        """Does what :meth:`release_batch` does, for events that are named by their keys and fences."""
        return [bool(number) for number in self._session.settle_fences(keys, fences, at, False)]

    def info(self) -> ClusterInfo:
        """Returns the name and the definition of the filter, and whether its events need times."""
        return self._session.info()

    def close(self, within: float = CLOSE_WITHIN_S) -> bool:
        """Closes the connection, and returns whether everything was sent, such as the releases of claims.

        It waits for this at most ``within`` seconds, but not for calls that wait for their turn. These and later calls
        raise :class:`firstseen.ClusterError`.
        """
        return bool(self._session.close(within))

    def __enter__(self) -> ClusterFilter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class BaseClaim:
    """Answer to the claim of an event. It is true if the event is claimed."""

    #: ``FIRST_SEEN`` if the event is claimed, ``DUPLICATE`` if it was delivered before, ``CLAIMED`` if another consumer
    #: holds it. Otherwise the claim is undecided.
    verdict: Verdict
    #: The longest time in seconds until the lease of another consumer ends, or ``None`` if none holds the event.
    wait: float | None

    def __init__(self, session: Session, number: int, wait: float | None, grant: Grant | None) -> None:
        self.verdict = Verdict(number)
        self.wait = wait
        self._session = session
        self._grant = grant

    def __bool__(self) -> bool:
        return self._grant is not None

    @property
    def fence(self) -> bytes | None:
        """Number of the grant in 24 bytes, or ``None``. A later grant of an event has a greater number."""
        return self._grant.fence if self._grant else None

    @property
    def left(self) -> float:
        """Remaining seconds of the lease, which are 0 if the event is not claimed."""
        return self._grant.left_s if self._grant else 0.0

    def deliver(self) -> None:
        """Begins the delivery: from now on, neither leaving the block nor dropping the claim releases the event.

        Call it before a delivery that may fail halfway. Without a confirmation, another consumer gets the event when
        the lease ends.
        """
        self._held().keep()

    def _held(self) -> Grant:
        if self._grant is None:
            raise LeaseLostError(f"the event is not claimed ({self.verdict.name}): test the claim before you use it")
        return self._grant

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} {self.verdict.name}, {self.left:.1f} s left>"


class Claim(BaseClaim):
    """Answer to the claim of an event. It is true if the event is claimed, and releases the event when it is dropped.

    :meth:`firstseen.ClusterFilter.claim` returns it.
    """

    def confirm(self) -> bool:
        """Records the event as delivered. Returns whether this call recorded it; otherwise it was recorded before.

        Raises :class:`firstseen.LeaseLostError` if another consumer holds the event, and
        :class:`firstseen.UndecidedError` if the cluster cannot decide. You can then confirm again.
        """
        return is_confirmed(self._session.settle([self._held()], True)[0])

    def release(self) -> bool:
        """Releases the event, so that others can claim it. Returns whether this program still held it."""
        return bool(self._session.settle([self._held()], False)[0])

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._grant is None or not self._grant.is_held:
            return
        try:
            if kind is None or issubclass(kind, Exception):
                # If the release fails, the lease ends.
                with suppress(Error):
                    self.release()
        finally:
            # An exception such as KeyboardInterrupt has ended the block, perhaps while the release waited for its turn.
            self._grant.release_later()


def is_new(number: int) -> bool:
    """Returns whether an event is new. Raises an exception if it could not be judged."""
    verdict = Verdict(number)
    if verdict.is_undecided:
        raise error_about(verdict)
    return verdict is Verdict.FIRST_SEEN


def is_confirmed(number: int) -> bool:
    """Returns whether a confirmation recorded the event. Raises an exception if it is lost or undecided."""
    if number == Verdict.CLAIMED:
        raise LeaseLostError("the lease has ended, and another consumer may deliver the event")
    return is_new(number)


def grants_of(claims: Iterable[BaseClaim], session: Session) -> list[Grant]:
    """Returns the grants of claims. Raises an exception if one of them is not claimed, or not with this connection."""
    grants = []
    for claim in claims:
        if claim._session is not session:
            raise ValueError("claims: a claim was made with another connection: confirm or release it there")
        grants.append(claim._held())
    return grants
