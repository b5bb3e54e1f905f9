"""Exceptions of the package."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Base class of the exceptions of this package."""


class DefinitionError(Error, ValueError):
    """The settings of a filter do not fit together. The message names the setting and what to change."""


class StateError(Error):
    """A saved filter cannot be read or written. The message names the file and the reason."""


class ClusterError(Error):
    """A cluster cannot be reached, or a call has failed.

    A call that was refused, for example because the connection is closed, recorded nothing. If the message says that a
    call ended without an answer, its events may have been recorded.
    """


class LeaseLostError(Error):
    """A claim cannot be confirmed or released, because the caller does not hold the event."""


class UndecidedError(Error):
    """An event could not be judged, although the caller asked for a verdict on every event.

    The other events of the call have been judged, and those that are new have been recorded.
    """

    #: Numbers of the verdicts on all events of the call, in order (see :class:`firstseen.Verdict`).
    verdicts: Any

    def __init__(self, message: str, verdicts: Any = None) -> None:
        super().__init__(message)
        self.verdicts = verdicts


class FilterFull(UndecidedError):
    """The filter has no room for an event. Make a filter with a larger ``capacity``."""
