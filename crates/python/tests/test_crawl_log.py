"""The log of the pages of a crawl."""

import tracemalloc

import pytest

from firstseen import _crawl_log
from firstseen._crawl_log import CrawlLog, CrawlLogError, Seen


def test_a_log_is_read_up_to_the_record_that_was_cut_short(tmp_path):
    path = tmp_path / "crawl.log"
    assert _crawl_log.read(path).is_closed
    log = CrawlLog(path, _crawl_log.read(path))
    for number in range(3):
        log.seen(Seen(bytes([number]), 1.0), b"request")
    log.done(b"\1")
    whole = path.stat().st_size
    log.seen(Seen(b"\3", 1.0), b"request")
    log.close()
    data = path.read_bytes()
    for end in range(whole, len(data)):
        path.write_bytes(data[:end])
        content = _crawl_log.read(path)
        assert (list(content.pending), content.whole_bytes, content.is_closed) == ([b"\0", b"\2"], whole, False)
    # A damaged record ends the log, too.
    path.write_bytes(data[: whole + 12] + bytes([data[whole + 12] ^ 1]) + data[whole + 13 :])
    log = CrawlLog(path, _crawl_log.read(path))
    log.compact(log.content(), is_closed=True)
    log.close()
    content = _crawl_log.read(path)
    assert list(content.pending) == [b"\0", b"\2"] and content.is_closed
    assert list(_crawl_log.requests(path, content))[1] == (Seen(b"\2", 1.0), b"request")


def test_a_page_is_in_doubt_until_the_cluster_has_answered(tmp_path):
    path = tmp_path / "crawl.log"
    log = CrawlLog(path, _crawl_log.read(path))
    log.asked(Seen(b"new", 1.0), b"new")
    log.taken(b"new")
    for page in (b"known", b"new"):
        log.asked(Seen(page, 1.0), page)
    assert list(_crawl_log.read(path).pending) == [b"new"]
    log.asked(Seen(b"other", 1.0), b"other")
    log.close()
    content = _crawl_log.read(path)
    assert (list(content.pending), content.in_doubt) == ([b"new", b"other"], b"other")
    log = CrawlLog(path, content)
    log.asked(Seen(b"known", 1.0), b"known")
    log.done(b"new")
    log.close()
    content = _crawl_log.read(path)
    assert (list(content.pending), content.in_doubt) == ([b"other"], None)


def test_a_large_log_is_compacted_while_the_crawl_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(_crawl_log, "COMPACTED_FROM_BYTES", 10_000)
    path = tmp_path / "crawl.log"
    log = CrawlLog(path, _crawl_log.read(path))
    for number in range(1_000):
        log.seen(Seen(number.to_bytes(2, "big"), 1.0), b"request")
        if number % 100:
            log.done(number.to_bytes(2, "big"))
        if log.is_large:
            log.compact(log.content(), is_closed=False)
    assert path.stat().st_size < 20_000
    log.close()
    content = _crawl_log.read(path)
    assert [int.from_bytes(key, "big") for key in content.pending] == list(range(0, 1_000, 100))
    assert not content.is_closed


class FullDisk:
    """A file on a disk that has no room for a whole record."""

    def __init__(self, file, is_short):
        self.file = file
        self.is_short = is_short

    def write(self, data):
        self.file.write(data[:-1])
        if self.is_short:
            return len(data) - 1
        raise OSError(28, "No space left on device")

    def truncate(self, size):
        self.file.truncate(size)


@pytest.mark.parametrize("is_short", [True, False])
def test_a_record_that_cannot_be_written_is_the_last_one(tmp_path, is_short):
    """Records after one that was cut short could not be read."""
    path = tmp_path / "crawl.log"
    log = CrawlLog(path, _crawl_log.read(path))
    log.seen(Seen(b"first", 1.0), b"request")
    whole, file = path.stat().st_size, log._file
    log._file = FullDisk(file, is_short)
    with pytest.raises(CrawlLogError, match="cannot write .*crawl.log"):
        log.seen(Seen(b"second", 1.0), b"request")
    assert path.stat().st_size == whole
    # There is room again. But the page of the second record is missing, so the page that leads to it must not be done.
    log._file = file
    with pytest.raises(CrawlLogError, match="an earlier record"):
        log.done(b"first")
    log.close()
    assert list(_crawl_log.read(path).pending) == [b"first"]


def test_a_damaged_log_is_not_compacted(tmp_path):
    """Compacting dropped the records after the damage, while the saved filter knew their pages."""
    path = tmp_path / "crawl.log"
    log = CrawlLog(path, _crawl_log.read(path))
    for number in range(3):
        log.seen(Seen(bytes([number]), 1.0), b"request")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CrawlLogError, match="is damaged at byte"):
        log.content()
    assert path.read_bytes() == data and log.has_failed
    log.close()


def test_a_known_page_is_not_pending_after_compacting(tmp_path):
    """The log was compacted after the answer of the cluster that a page was known, and took the page for unanswered."""
    path = tmp_path / "crawl.log"
    log = CrawlLog(path, _crawl_log.read(path))
    log.asked(Seen(b"known", 1.0), b"request")
    log.compact(log.content(), is_closed=False)
    log.close()
    content = _crawl_log.read(path)
    assert not content.pending and content.in_doubt is None


def test_a_log_is_read_without_keeping_its_requests(tmp_path):
    """The whole log was read into memory, at every compaction and every start."""
    path = tmp_path / "crawl.log"
    log = CrawlLog(path, _crawl_log.read(path))
    for number in range(1_000):
        log.seen(Seen(number.to_bytes(20, "big"), 1.0), bytes(10_000))
    tracemalloc.start()
    log.compact(log.content(), is_closed=True)
    content = _crawl_log.read(path)
    assert sum(len(request) for _, request in _crawl_log.requests(path, content)) == 10_000_000
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
    log.close()
