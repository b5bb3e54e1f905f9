"""An append-only log of the pages of a crawl, which survives the death of its process.

The log says which pages were requested and which of them are done. A page is done when the requests for all pages that
it links to are in the log, too. So the pages that are not done are enough to continue a crawl, whenever it died.

Each record is written by one system call, without a buffer. A record that was cut short by the death of the process is
found by its checksum and left out. The log is not synced, so it survives the death of the process, but the last seconds
may be lost if the power fails.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: Kind of a record, bytes of its content, and checksum of both and of the content.
_HEAD = struct.Struct("<BII")
#: Time of a request in seconds since 1970, and bytes of its fingerprint.
_SEEN_HEAD = struct.Struct("<dH")
_SEEN, _DONE, _OPENED, _CLOSED, _ASKED, _TAKEN = 1, 2, 3, 4, 5, 6
#: Size from which on a log is written again without the pages that are done.
COMPACTED_FROM_BYTES = 64 << 20


@dataclass
class Seen:
    """A page that was requested."""

    fingerprint: bytes
    at: float


@dataclass
class Content:
    """What a log contains."""

    #: Requests of the pages that are not done, by their fingerprints, in order.
    pending: dict[bytes, tuple[Seen, bytes]] = field(default_factory=dict)
    #: Whether the crawl ended in order. A log that does not exist has no crawl that could have died.
    is_closed: bool = True
    #: Fingerprint of a page about which a cluster was asked when the process died, if it counts as pending for that.
    in_doubt: bytes | None = None
    #: Bytes of the records that are whole.
    whole_bytes: int = 0


class CrawlLog:
    """The log of a crawl that runs."""

    def __init__(self, path: Path, content: Content) -> None:
        """Continues the log whose content was read."""
        self._path = path
        self._file = path.open("ab", buffering=0)
        self._file.truncate(content.whole_bytes)
        self._bytes = content.whole_bytes
        self._compact_from_bytes = COMPACTED_FROM_BYTES
        if content.in_doubt is not None:
            self.taken(content.in_doubt)
        self._append(_record(_OPENED, b""))

    @property
    def is_large(self) -> bool:
        """Whether the log should be compacted."""
        return self._bytes > self._compact_from_bytes

    def seen(self, page: Seen, request: bytes) -> None:
        """Notes that a page is requested. ``request`` is what is needed to request it again."""
        self._append(_seen_record(page, request))

    def asked(self, page: Seen, request: bytes) -> None:
        """Notes that a cluster is asked about a page, before it is. The next record says what the answer was."""
        self._append(_page_record(_ASKED, page, request))

    def taken(self, fingerprint: bytes) -> None:
        """Notes that the page of the last record is new, and is requested. Without this record, it was not new."""
        self._append(_record(_TAKEN, fingerprint))

    def done(self, fingerprint: bytes) -> None:
        """Notes that a page is done."""
        self._append(_record(_DONE, fingerprint))

    def compact(self, is_closed: bool) -> None:
        """Replaces the log by one with only the pages that are not done. The caller knows the others from elsewhere."""
        content = read(self._path)
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            for page, request in content.pending.values():
                file.write(_seen_record(page, request))
            file.write(_record(_CLOSED if is_closed else _OPENED, b""))
            file.flush()
            os.fsync(file.fileno())
        self._file.close()
        new.replace(self._path)
        self._file = self._path.open("ab", buffering=0)
        self._bytes = self._path.stat().st_size
        self._compact_from_bytes = max(COMPACTED_FROM_BYTES, 2 * self._bytes)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _append(self, record: bytes) -> None:
        written = self._file.write(record)
        if written != len(record):
            raise OSError(f"cannot write the log of the crawl {self._path}: is the disk full?")
        self._bytes += len(record)


def read(path: Path, visit: Callable[[Seen], None] | None = None) -> Content:
    """Reads a log, and calls ``visit`` with each page that was requested, in order."""
    content = Content()
    if not path.exists():
        return content
    asked: tuple[Seen, bytes] | None = None
    for kind, body, end in _records(path.read_bytes()):
        content.whole_bytes = end
        content.is_closed = kind == _CLOSED
        requested = _page(body) if kind == _SEEN else None
        if kind == _TAKEN and asked is not None and asked[0].fingerprint == body:
            requested = asked
        asked = _page(body) if kind == _ASKED else None
        if requested is not None:
            content.pending[requested[0].fingerprint] = requested
            if visit is not None:
                visit(requested[0])
        elif kind == _DONE:
            content.pending.pop(body, None)
    if asked is not None and asked[0].fingerprint not in content.pending:
        # The process died before it had the answer. The page may be new, so it is requested.
        content.in_doubt = asked[0].fingerprint
        content.pending[content.in_doubt] = asked
    return content


def _page(body: bytes) -> tuple[Seen, bytes]:
    at, size = _SEEN_HEAD.unpack_from(body)
    request_at = _SEEN_HEAD.size + size
    return Seen(body[_SEEN_HEAD.size : request_at], at), body[request_at:]


def _records(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    place = 0
    while place + _HEAD.size <= len(data):
        kind, size, checksum = _HEAD.unpack_from(data, place)
        body = data[place + _HEAD.size : place + _HEAD.size + size]
        if len(body) < size or checksum != _checksum(kind, body):
            return
        place += _HEAD.size + size
        yield kind, body, place


def _record(kind: int, body: bytes) -> bytes:
    return _HEAD.pack(kind, len(body), _checksum(kind, body)) + body


def _seen_record(page: Seen, request: bytes) -> bytes:
    return _page_record(_SEEN, page, request)


def _page_record(kind: int, page: Seen, request: bytes) -> bytes:
    return _record(kind, _SEEN_HEAD.pack(page.at, len(page.fingerprint)) + page.fingerprint + request)


def _checksum(kind: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(bytes([kind])))
