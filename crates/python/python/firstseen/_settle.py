"""Hands the results of calls over to the futures of asyncio."""

from __future__ import annotations

from asyncio import Future
from typing import Any


def settle(future: Future[Any], value: Any, error: BaseException | None) -> None:
    """Sets the result of a call. If the caller was cancelled, the result is dropped, which releases claims."""
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
