"""An append-only log of the pages of a crawl, which survives the death of its process.

The log says which pages were requested and which of them are done. A page is done when the requests for all pages that
it links to are in the log, too. So the pages that are not done are enough to continue a crawl, whenever it died.

Each record is written by one system call, without a buffer. A record that was cut short by the death of the process is
found by its checksum and left out. The log is not synced, so it survives the death of the process, but the last seconds
may be lost if the power fails.

The requests of the pages stay in the file. A process keeps only the fingerprint and the place of each page that is not
done, and only while it reads or compacts a log.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

#: Kind of a record, bytes of its content, and checksum of both and of the content.
_HEAD = struct.Struct("<BII")
#: Time of a request in seconds since 1970, and bytes of its fingerprint.
_SEEN_HEAD = struct.Struct("<dH")
_SEEN, _DONE, _OPENED, _CLOSED, _ASKED, _TAKEN = 1, 2, 3, 4, 5, 6
#: Size from which on a log is written again without the pages that are done.
COMPACTED_FROM_BYTES = 64 << 20


class CrawlLogError(OSError):
    """The log of a crawl cannot be written or read. From then on, nothing is appended to it."""


@dataclass
class Seen:
    """A page that was requested."""

    fingerprint: bytes
    at: float


@dataclass
class Content:
    """What a log contains."""

    #: Places in the file of the records of the pages that are not done, by their fingerprints, in order.
    pending: dict[bytes, int] = field(default_factory=dict)
    #: Whether the crawl ended in order. A log that does not exist has no crawl that could have died.
    is_closed: bool = True
    #: Fingerprint of a page about which a cluster was asked when the process died, if it counts as pending for that.
    in_doubt: bytes | None = None
    #: Bytes of the records that are whole.
    whole_bytes: int = 0
    #: Bytes after them, which cannot be read.
    unreadable_bytes: int = 0


class CrawlLog:
    """The log of a crawl that runs."""

    def __init__(self, path: Path, content: Content) -> None:
        """Continues the log whose content was read."""
        self._path = path
        self._file = path.open("ab", buffering=0)
        self._file.truncate(content.whole_bytes)
        self._bytes = content.whole_bytes
        self._compact_from_bytes = COMPACTED_FROM_BYTES
        #: Whether a record could not be written, so that the log lacks a page.
        self.has_failed = False
        if content.in_doubt is not None:
            self.taken(content.in_doubt)
        self._append(_record(_OPENED, b""))

    @property
    def is_large(self) -> bool:
        """Whether the log should be compacted."""
        return self._bytes > self._compact_from_bytes

    def seen(self, page: Seen, request: bytes) -> None:
        """Notes that a page is requested. ``request`` is what is needed to request it again."""
        self._append(_page_record(_SEEN, page, request))

    def asked(self, page: Seen, request: bytes) -> None:
        """Notes that a cluster is asked about a page, before it is. The next record says what the answer was."""
        self._append(_page_record(_ASKED, page, request))

    def taken(self, fingerprint: bytes) -> None:
        """Notes that the page of the last record is new, and is requested. Without this record, it was not new."""
        self._append(_record(_TAKEN, fingerprint))

    def done(self, fingerprint: bytes) -> None:
        """Notes that a page is done."""
        self._append(_record(_DONE, fingerprint))

    def closed(self) -> None:
        """Notes that the crawl ended in order."""
        self._append(_record(_CLOSED, b""))

    def content(self) -> Content:
        """Reads the log, to compact it. The answer about each page must be in the log.

        Raises :class:`CrawlLogError` if a record cannot be read. The records after it would be lost by compacting.
        """
        content = read(self._path, is_answered=True)
        if content.whole_bytes != self._bytes:
            self.has_failed = True
            raise CrawlLogError(f"{self._path} is damaged at byte {content.whole_bytes} of {self._bytes}")
        return content

    def compact(self, content: Content, is_closed: bool) -> None:
        """Replaces the log by one with only the pages that are not done. The caller knows the others from elsewhere."""
        new = self._path.with_suffix(".new")
        try:
            with new.open("wb") as file:
                for page, request in requests(self._path, content):
                    file.write(_page_record(_SEEN, page, request))
                file.write(_record(_CLOSED if is_closed else _OPENED, b""))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError:
            with suppress(OSError):
                new.unlink()
            raise
        self._file.close()
        self._file = self._path.open("ab", buffering=0)
        self._bytes = self._path.stat().st_size
        self.compact_later()

    def compact_later(self) -> None:
        """Waits with compacting until the log has doubled."""
        self._compact_from_bytes = max(COMPACTED_FROM_BYTES, 2 * self._bytes)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _append(self, record: bytes) -> None:
        if self.has_failed:
            raise CrawlLogError(f"cannot write {self._path}: an earlier record could not be written")
        try:
            written = self._file.write(record)
            if written == len(record):
                self._bytes += written
                return
            cause = OSError(f"only {written} of {len(record)} bytes were written")
        except OSError as error:
            cause = error
        # A log without one of its records may be continued only by reading it, so that its pages are requested again.
        self.has_failed = True
        with suppress(OSError):
            self._file.truncate(self._bytes)
        raise CrawlLogError(f"cannot write {self._path}: {cause}") from cause


def read(path: Path, visit: Callable[[Seen], None] | None = None, is_answered: bool = False) -> Content:
    """Reads a log, and calls ``visit`` with each page that was requested, in order.

    ``is_answered`` says that the process which writes the log has the answer about the page of the last record. Without
    an answer in the log, this page was then not new.
    """
    content = Content()
    if not path.exists():
        return content
    with path.open("rb") as file:
        asked: tuple[Seen, int] | None = None
        file_bytes = os.fstat(file.fileno()).st_size
        for kind, body, place in _records(file, file_bytes):
            content.whole_bytes = place + _HEAD.size + len(body)
            content.is_closed = kind == _CLOSED
            requested = (_page(body)[0], place) if kind == _SEEN else None
            if kind == _TAKEN and asked is not None and asked[0].fingerprint == body:
                requested = asked
            asked = (_page(body)[0], place) if kind == _ASKED else None
            if requested is not None:
                page, page_place = requested
                # The pages stay in the order of their places.
                content.pending.pop(page.fingerprint, None)
                content.pending[page.fingerprint] = page_place
                if visit is not None:
                    visit(page)
            elif kind == _DONE:
                content.pending.pop(body, None)
        content.unreadable_bytes = file_bytes - content.whole_bytes
    if asked is not None and not is_answered and asked[0].fingerprint not in content.pending:
        # The process died before it had the answer. The page may be new, so it is requested.
        content.in_doubt, content.pending[asked[0].fingerprint] = asked[0].fingerprint, asked[1]
    return content


def requests(path: Path, content: Content) -> Iterator[tuple[Seen, bytes]]:
    """Reads the pages that are not done, and their requests, in order."""
    places = iter(content.pending.values())
    next_place = next(places, None)
    with path.open("rb") as file:
        for _, body, place in _records(file, content.whole_bytes):
            if place == next_place:
                yield _page(body)
                next_place = next(places, None)
    if next_place is not None:
        raise CrawlLogError(f"{path} is damaged before byte {next_place}")


def _page(body: bytes) -> tuple[Seen, bytes]:
    at, size = _SEEN_HEAD.unpack_from(body)
    request_at = _SEEN_HEAD.size + size
    return Seen(body[_SEEN_HEAD.size : request_at], at), body[request_at:]


def _records(file: BinaryIO, file_bytes: int) -> Iterator[tuple[int, bytes, int]]:
    """Reads records up to the first that is not whole: the kind and the content of each, and where it begins."""
    place = 0
    while (record := _next_record(file, file_bytes - place)) is not None:
        kind, body = record
        yield kind, body, place
        place += _HEAD.size + len(body)


def _next_record(file: BinaryIO, bytes_max: int) -> tuple[int, bytes] | None:
    """Reads a record, unless it is damaged or longer than ``bytes_max``."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    kind, size, checksum = _HEAD.unpack(head)
    if size > bytes_max - _HEAD.size:
        return None
    body = file.read(size)
    return (kind, body) if len(body) == size and checksum == _checksum(kind, body) else None


def _record(kind: int, body: bytes) -> bytes:
    return _HEAD.pack(kind, len(body), _checksum(kind, body)) + body


def _page_record(kind: int, page: Seen, request: bytes) -> bytes:
    return _record(kind, _SEEN_HEAD.pack(page.at, len(page.fingerprint)) + page.fingerprint + request)


def _checksum(kind: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(bytes([kind])))
