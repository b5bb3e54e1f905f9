"""Removes duplicates from data frames that come in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from firstseen._firstseen import Filter

if TYPE_CHECKING:
    from firstseen._cluster import ClusterFilter
    from firstseen._types import Unjudged

Frame = TypeVar("Frame")


def dedup(
    batches: Iterable[Frame],
    *,
    on: str | Sequence[str],
    filter: Filter | ClusterFilter,
    at: str | None = None,
    unjudged: Unjudged = "pass",
) -> Iterator[Frame]:
    """Yields each batch without the rows whose key was seen before.

    ``batches`` can be larger than memory: only one batch at a time is held. A batch is a data frame of polars or
    pandas, or a table or record batch of pyarrow.

    ``on`` names the columns of the key, and ``at`` the column with the times of the rows. Without ``at``, all rows
    happen now. ``unjudged`` says what happens to rows that cannot be judged, for example because their key is missing:
    ``"pass"`` yields them, ``"drop"`` leaves them out, and ``"fail"`` raises :class:`firstseen.UndecidedError`. The
    batch with such a row is then recorded and not yielded: load the last saved filter to repeat it.

    >>> import firstseen, pyarrow
    >>> clicks = firstseen.Filter(capacity=1000, seed=7)
    >>> batches = [pyarrow.table({"id": ["a", "b", "a"]}), pyarrow.table({"id": ["b", "c"]})]
    >>> [batch["id"].to_pylist() for batch in firstseen.dedup(batches, on="id", filter=clicks)]
    [['a', 'b'], ['c']]
    """
    names = [on] if isinstance(on, str) else list(on)
    for batch in batches:
        kept = _kept(batch)
        columns = [_column(batch, name) for name in names]
        times = None if at is None else _column(batch, at)
        yield kept(filter.observe_batch(*columns, at=times, unjudged=unjudged))


def _column(batch: Any, name: str) -> Any:
    try:
        return batch[name]
    except KeyError:
        names = getattr(batch, "column_names", None) or list(getattr(batch, "columns", []))
        raise KeyError(f"there is no column {name!r}: the columns are {', '.join(map(str, names))}") from None


def _kept(batch: Any) -> Callable[[Any], Any]:
    """Returns a function that returns the rows of a batch for which a mask is true.

    The type of the batch is checked before its rows are recorded.
    """
    kind = type(batch).__module__.partition(".")[0]
    if kind == "pyarrow":
        import pyarrow

        return lambda mask: batch.filter(pyarrow.array(mask, pyarrow.bool_()))
    if kind == "polars":
        import polars

        return lambda mask: batch.filter(polars.Series("mask", mask, dtype=polars.Boolean))
    if kind == "pandas":
        return lambda mask: batch[mask]
    raise TypeError(
        f"a batch cannot be a {type(batch).__name__}: use a frame of polars or pandas, or a table of pyarrow"
    )
