"""Crawls of a site on the loopback, which are killed and continued."""

import collections
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import urllib.parse

import pytest
from clusters import eventually

from firstseen import _crawl_log
from firstseen._crawl_log import CrawlLog, Seen

scrapy = pytest.importorskip("scrapy")

from scrapy.settings import Settings  # noqa: E402
from scrapy.utils.request import RequestFingerprinter  # noqa: E402
from scrapy.utils.test import get_crawler  # noqa: E402

from firstseen.scrapy import Addon, DupeFilter  # noqa: E402

#: Pages of the site. `FIRSTSEEN_CRAWL_PAGES=10000` makes a long test of a few minutes.
PAGES = int(os.environ.get("FIRSTSEEN_CRAWL_PAGES", "300"))
#: Requests that a crawl has in flight at most (`spider.py`).
IN_FLIGHT_MAX = 8
CRAWL_WITHIN_S = 600


class Site:
    """A site whose pages link to each other in loops, with fragments, in all orders of a query, and over redirects."""

    def __init__(self, pages):
        self.pages = pages
        #: Pages in the order in which they were requested.
        self.requests = []
        self.lock = threading.Lock()
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                site.answer(self)

            def log_message(self, *arguments):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                """A crawler that is killed leaves its connections, which is no error here."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, page):
        return f"http://127.0.0.1:{self.server.server_port}/page?a=1&n={page}"

    def answer(self, handler):
        parts = urllib.parse.urlsplit(handler.path)
        page = int(urllib.parse.parse_qs(parts.query)["n"][0])
        if parts.path == "/moved":
            handler.send_response(302)
            handler.send_header("Location", f"/page?n={page}&a=1")
            body = b""
        else:
            with self.lock:
                self.requests.append(page)
            # Each page links to two new ones, to the page before, to itself, and to the first one.
            links = [
                f"/page?n={next_page}&a=1" for next_page in (2 * page + 1, page - 1) if 0 <= next_page < self.pages
            ]
            links += [f"/moved?n={2 * page + 2}"] if 2 * page + 2 < self.pages else []
            links += [f"/page?a=1&n={page}#part", f"/page?a=1&n={page}", "/page?n=0&a=1#top"]
            body = "".join(f'<a href="{link}">page</a>' for link in links).encode()
            handler.send_response(200)
            handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    @property
    def counts(self):
        with self.lock:
            return collections.Counter(self.requests)


@pytest.fixture
def site():
    made = Site(PAGES)
    yield made
    made.server.shutdown()
    made.server.server_close()


class Crawls:
    """Starts crawls with one job folder."""

    def __init__(self, site, folder, **settings):
        self.site = site
        self.folder = folder
        self.settings = {"JOBDIR": str(folder / "job"), **settings}
        self.log = folder / "crawl.errors"

    def start(self):
        spider = pathlib.Path(__file__).parent / "spider.py"
        command = [sys.executable, str(spider), self.site.url(0), json.dumps(self.settings)]
        with self.log.open("a") as errors:
            return subprocess.Popen(command, stdout=errors, stderr=errors)

    def finish(self):
        crawl = self.start()
        assert crawl.wait(CRAWL_WITHIN_S) == 0, self.log.read_text()

    def stop(self, requests, number):
        """Starts a crawl, and sends it a signal after this number of requests of all crawls."""
        crawl = self.start()
        eventually(lambda: len(self.site.requests) >= requests or crawl.poll() is not None, CRAWL_WITHIN_S)
        assert crawl.poll() is None, self.log.read_text()
        crawl.send_signal(number)
        crawl.wait(60)

    def pages_done(self):
        """Pages that a crawl that was killed has done, according to its log."""
        seen = set()
        content = _crawl_log.read(
            self.folder / "job" / "firstseen" / "crawl.log", lambda page: seen.add(page.fingerprint)
        )
        assert not content.is_closed
        done = seen - content.pending.keys()
        fingerprint = RequestFingerprinter().fingerprint
        pages = range(self.site.pages)
        return {page for page in pages if fingerprint(scrapy.Request(self.site.url(page))) in done}


def test_a_crawl_that_is_killed_twice_is_continued(site, tmp_path):
    """Every page is fetched. A page that was done when a crawl was killed is never fetched again.

    The others were in flight: at most as many as Scrapy has requests in flight, and as many whose responses had arrived
    while their links were not yet in the log. Only these may be fetched a second time, because nobody knows whether
    their links were found.
    """
    crawls = Crawls(site, tmp_path)
    again_at_most = 0
    kills = []
    for part in (3, 2):
        crawls.stop(site.pages // part, signal.SIGKILL)
        done = crawls.pages_done()
        before = site.counts
        assert len(done) > site.pages // part // 2
        assert len(before) - len(done) <= 2 * IN_FLIGHT_MAX
        again_at_most += len(before) - len(done)
        assert len(before) < site.pages
        kills.append((done, before))
    crawls.finish()
    counts = site.counts
    assert set(counts) == set(range(site.pages))
    for done, before in kills:
        assert all(counts[page] == before[page] for page in done)
    assert all(counts[page] == 1 for page in kills[0][0])
    assert sum(counts.values()) - site.pages <= again_at_most


def test_a_crawl_that_is_stopped_in_order_fetches_each_page_once(site, tmp_path):
    """Scrapy answers the first SIGINT by ending in order, so no page is in flight. A later kill loses nothing."""
    crawls = Crawls(site, tmp_path)
    crawls.stop(site.pages // 3, signal.SIGINT)
    assert set(site.counts.values()) == {1} and len(site.counts) < site.pages
    crawls.stop(site.pages // 2, signal.SIGKILL)
    done = crawls.pages_done()
    crawls.finish()
    counts = site.counts
    assert set(counts) == set(range(site.pages))
    assert all(counts[page] == 1 for page in done)
    assert sum(counts.values()) - site.pages <= 2 * IN_FLIGHT_MAX
    # The crawl is over, so continuing it fetches nothing.
    crawls.finish()
    assert site.counts == counts


def test_crawlers_share_a_filter_of_a_cluster(site, tmp_path, cluster_of_3):
    name = cluster_of_3.create("--window", "unbounded", "--capacity", "100k", "--fpr", "1e-9")
    shared = {"FIRSTSEEN_CLUSTER": cluster_of_3.address, "FIRSTSEEN_FILTER": name}
    crawls = Crawls(site, tmp_path, **shared)
    crawls.stop(site.pages // 3, signal.SIGKILL)
    done = crawls.pages_done()
    crawls.finish()
    counts = site.counts
    assert set(counts) == set(range(site.pages))
    assert all(counts[page] == 1 for page in done)
    assert sum(counts.values()) - site.pages <= 2 * IN_FLIGHT_MAX
    other = tmp_path / "other"
    other.mkdir()
    Crawls(site, other, **shared).finish()
    assert site.counts == counts


def dupe_filter(settings):
    crawler = get_crawler(settings_dict=settings)
    return DupeFilter.from_crawler(crawler)


def test_settings(tmp_path):
    with pytest.raises(ValueError, match="set ADDONS"):
        dupe_filter({"JOBDIR": str(tmp_path)})
    with pytest.raises(ValueError, match="FIRSTSEEN_FILTER"):
        dupe_filter({"FIRSTSEEN_CLUSTER": "127.0.0.1:1"})
    chosen = Settings()
    Addon().update_settings(chosen)
    assert chosen["DUPEFILTER_CLASS"] is DupeFilter
    seen = dupe_filter({"FIRSTSEEN_WINDOW": "7d", "FIRSTSEEN_CAPACITY": 1000, "FIRSTSEEN_FPR": 0.001})
    stats = seen._pages.stats()
    assert (stats["window"], stats["capacity"], stats["fpr"]) == ("7d", 1000, 0.001)
    first, same = scrapy.Request("http://a/?x=1&y=2#z"), scrapy.Request("http://a/?y=2&x=1")
    assert not seen.request_seen(first) and seen.request_seen(same)
    seen.log(same, None)
    assert seen._crawler.stats.get_value("dupefilter/filtered") == 1
    assert dupe_filter({})._pages.stats()["fpr"] == 1e-9


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
    log.compact(is_closed=True)
    log.close()
    content = _crawl_log.read(path)
    assert list(content.pending) == [b"\0", b"\2"] and content.is_closed
    assert content.pending[b"\2"] == (Seen(b"\2", 1.0), b"request")


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
            log.compact(is_closed=False)
    assert path.stat().st_size < 20_000
    log.close()
    content = _crawl_log.read(path)
    assert [int.from_bytes(key, "big") for key in content.pending] == list(range(0, 1_000, 100))
    assert not content.is_closed
