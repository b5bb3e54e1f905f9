"""Verdicts on events."""

from __future__ import annotations

import enum

from firstseen._errors import FilterFull, UndecidedError


class Verdict(enum.IntEnum):
    """Verdict of a filter on one event.

    >>> from firstseen import Verdict
    >>> Verdict(1)
    <Verdict.FIRST_SEEN: 1>
    >>> Verdict.LATE.is_undecided, Verdict.LATE.reason
    (True, 'it is older than the window and the lateness allow')
    """

    #: The event was seen within the window before, or it is a false positive.
    DUPLICATE = 0
    #: The event was not seen within the window before. It is recorded now, unless it was only looked up.
    FIRST_SEEN = 1
    #: The filter has no room for the event. It was not recorded.
    FULL = 2
    #: The event is older than the window and the lateness allow. It was neither looked up nor recorded.
    LATE = 3
    #: The time of the event is too far ahead of the times of other events. It was neither looked up nor recorded.
    FUTURE = 4
    #: The event has no key: its value is missing.
    NO_KEY = 5
    #: The event has no time, and the window needs one.
    NO_TIME = 6
    #: The program or a node has too much work in progress. The event was not recorded. Slow down and submit it again.
    OVERLOADED = 7
    #: The map of the cluster has just changed. The event was not recorded. Submit it again.
    STALE_MAP = 8
    #: The submission is older than what the cluster remembers of this program. An earlier attempt may have recorded it.
    TOO_OLD = 9
    #: The answer was lost, or did not arrive in time. The event may have been recorded.
    UNKNOWN = 10
    #: A node is starting or stopping, or does not answer. The event was not recorded. Submit it again.
    NOT_READY = 11
    #: The request is invalid, which is a bug.
    INVALID = 12
    #: The filter was dropped from the cluster.
    UNKNOWN_FILTER = 13
    #: Too few of the slices that the event needs can answer. The event was not recorded.
    SLICES_DOWN = 14
    #: The filter was altered during the call, and its new secret is not known. The event was not recorded.
    ALTERED = 15
    #: The name of the submission was used for another event.
    NAME_REUSED = 16
    #: The node has not heard from a majority of the cluster, and does not know the event. The event was not recorded.
    CUT_OFF = 17
    #: The clock of the node is wrong, so that it gives events no times. The event was not recorded.
    CLOCK_SKEW = 18
    #: Another consumer holds a claim on the event and is about to deliver it.
    CLAIMED = 19
    #: The caller does not have the right to do this with the filter.
    FORBIDDEN = 20
    #: A claim that another node has granted may still be active. The event was not recorded. Submit it again later.
    CLAIMS_UNKNOWN = 21

    @property
    def is_undecided(self) -> bool:
        """Whether the filter could not judge the event."""
        return self > Verdict.FIRST_SEEN

    @property
    def may_have_recorded(self) -> bool:
        """Whether the event may have been recorded although it is undecided."""
        return self in (Verdict.UNKNOWN, Verdict.TOO_OLD)

    @property
    def reason(self) -> str | None:
        """Why the event could not be judged, or ``None`` if it was judged."""
        return _REASONS.get(self)


_REASONS = {
    Verdict.FULL: "the filter has no room for it: make a filter with a larger capacity",
    Verdict.LATE: "it is older than the window and the lateness allow",
    Verdict.FUTURE: "its time is too far ahead of the times of other events",
    Verdict.NO_KEY: "its key is missing",
    Verdict.NO_TIME: "its time is missing, and the window needs one",
    Verdict.OVERLOADED: "this program or a node has too much work in progress: slow down and submit it again",
    Verdict.STALE_MAP: "the map of the cluster has just changed: submit it again",
    Verdict.TOO_OLD: "the submission is older than what the cluster remembers of this program",
    Verdict.UNKNOWN: "the answer was lost or did not arrive in time, and the event may have been recorded",
    Verdict.NOT_READY: "a node is starting or stopping, or does not answer: submit it again",
    Verdict.INVALID: "the request is invalid, which is a bug",
    Verdict.UNKNOWN_FILTER: "the filter was dropped from the cluster",
    Verdict.SLICES_DOWN: "too few of the slices that it needs can answer: submit it again later",
    Verdict.ALTERED: "the filter was altered during the call: submit it again",
    Verdict.NAME_REUSED: "the name of the submission was used for another event",
    Verdict.CUT_OFF: "the node has not heard from a majority of the cluster: submit it again later",
    Verdict.CLOCK_SKEW: "the clock of the node is wrong: submit it again later, and check the clocks of the cluster",
    Verdict.CLAIMED: "another consumer has claimed it: ask again when the lease may have ended",
    Verdict.FORBIDDEN: "you do not have the right to do this with the filter: ask the operator of the cluster",
    Verdict.CLAIMS_UNKNOWN: "a claim that another node has granted may still be active: submit it again later",
}


def error_about(verdict: Verdict) -> UndecidedError:
    """Returns the exception about an event that could not be judged."""
    kind = FilterFull if verdict is Verdict.FULL else UndecidedError
    return kind(f"the event cannot be judged: {verdict.reason}", [verdict])
