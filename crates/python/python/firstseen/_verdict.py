"""Verdicts on events."""

from __future__ import annotations

import enum


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

    @property
    def is_undecided(self) -> bool:
        """Whether the filter could not judge the event."""
        return self > Verdict.FIRST_SEEN

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
}
