"""Windowed filters that find duplicates in bounded memory.

A filter answers one question: has this event been seen within the last window, for example within the last 24 hours?
It takes a few bytes for each event of the window. Of the events that are new, at most the share ``fpr`` is taken for
duplicates. Within the window, every repeat is found, except by the kind ``stable``.

>>> import firstseen
>>> clicks = firstseen.Filter(window="24h", capacity=1_000_000, fpr=1e-6, seed=7)
>>> clicks.add("click-1")
True
>>> clicks.add("click-1")
False
>>> "click-1" in clicks
True
>>> list(map(bool, clicks.observe_batch(["click-1", "click-2", "click-2"])))
[False, True, False]

Several programs share a filter of a cluster (:func:`firstseen.connect`, and :mod:`firstseen.aio` for asyncio).
"""

from firstseen import aio
from firstseen._cluster import Claim, ClusterFilter, connect
from firstseen._errors import (
    ClusterError,
    DefinitionError,
    Error,
    FilterFull,
    LeaseLostError,
    StateError,
    UndecidedError,
)
from firstseen._firstseen import Filter, __version__, plan
from firstseen._frames import dedup
from firstseen._verdict import Verdict

__all__ = [
    "Claim",
    "ClusterError",
    "ClusterFilter",
    "DefinitionError",
    "Error",
    "Filter",
    "FilterFull",
    "LeaseLostError",
    "StateError",
    "UndecidedError",
    "Verdict",
    "__version__",
    "aio",
    "connect",
    "dedup",
    "plan",
]
