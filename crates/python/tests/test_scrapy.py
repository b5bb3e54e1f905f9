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

scrapy = pytest.importorskip("scrapy")

from scrapy.utils.request import RequestFingerprinter  # noqa: E402

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
        #: Number of requests from which on the site does not answer until it is released.
        self.held_from = None
        self.released = threading.Event()
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
                is_held = self.held_from is not None and len(self.requests) >= self.held_from
            if is_held:
                self.released.wait()
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

    def start(self, spider="SiteSpider", **settings):
        program = pathlib.Path(__file__).parent / "spider.py"
        command = [sys.executable, str(program), spider, self.site.url(0), json.dumps({**self.settings, **settings})]
        with self.log.open("a") as errors:
            return subprocess.Popen(command, stdout=errors, stderr=errors)

    def finish(self, **settings):
        """Runs a crawl to its end, and returns what it logged."""
        before = self.log.stat().st_size if self.log.exists() else 0
        crawl = self.start(**settings)
        assert crawl.wait(CRAWL_WITHIN_S) == 0, self.log.read_text()
        return self.log.read_text()[before:]

    def stop(self, requests, number, **settings):
        """Starts a crawl, and sends it a signal after this number of requests of all crawls.

        The site then answers no further request, so that the crawl still runs when the signal arrives.
        """
        self.site.released.clear()
        self.site.held_from = requests
        crawl = self.start(**settings)
        eventually(lambda: len(self.site.requests) >= requests or crawl.poll() is not None, CRAWL_WITHIN_S)
        assert crawl.poll() is None, self.log.read_text()
        crawl.send_signal(number)
        if number == signal.SIGINT:
            eventually(lambda: "Received SIGINT" in self.log.read_text(), CRAWL_WITHIN_S)
        else:
            crawl.wait(CRAWL_WITHIN_S)
        self.site.held_from = None
        self.site.released.set()
        crawl.wait(CRAWL_WITHIN_S)

    def content(self, visit=None):
        """Content of the log of the last crawl."""
        return _crawl_log.read(self.folder / "job" / "firstseen" / "crawl.log", visit)

    def pages_done(self):
        """Pages that a crawl that was killed has done, according to its log."""
        seen = set()
        content = self.content(lambda page: seen.add(page.fingerprint))
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


def test_a_crawl_whose_start_fails_after_a_kill_keeps_its_pages(site, tmp_path):
    """A pipeline failed to open after a kill. The log was then closed, although nobody had requested its pages."""
    crawls = Crawls(site, tmp_path)
    crawls.stop(site.pages // 3, signal.SIGKILL)
    done, pending = crawls.pages_done(), set(crawls.content().pending)
    before = site.counts
    assert "the pipeline cannot be opened" in crawls.finish(ITEM_PIPELINES={"spider.BrokenPipeline": 1})
    assert site.counts == before and not crawls.content().is_closed
    assert set(crawls.content().pending) == pending
    crawls.finish()
    assert set(site.counts) == set(range(site.pages))
    assert all(site.counts[page] == 1 for page in done)


def test_a_crawl_is_not_continued_without_one_of_its_pages(site, tmp_path):
    """A callback was renamed after a kill. The first request for it ended the list of requests that were restored."""
    crawls = Crawls(site, tmp_path)
    crawls.stop(site.pages // 3, signal.SIGKILL, spider="RenamedSpider")
    pending, before = set(crawls.content().pending), site.counts
    printed = crawls.finish()
    assert "cannot be restored: Method 'parse_link' not found" in printed and "http://127.0.0.1" in printed
    assert site.counts == before and set(crawls.content().pending) == pending
    crawls.finish(spider="RenamedSpider")
    assert set(site.counts) == set(range(site.pages))


def test_a_crawl_stops_when_the_disk_is_full_and_loses_no_page(site, tmp_path):
    """A page was recorded in the filter before the log, and was lost if the log could not be written."""
    crawls = Crawls(site, tmp_path)
    printed = crawls.finish(FILE_BYTES_MAX=site.pages * 200)
    assert "Closing spider (firstseen_log_failed)" in printed and "The crawl is stopped: cannot write" in printed
    content = crawls.content()
    assert not content.is_closed and content.unreadable_bytes == 0
    done = crawls.pages_done()
    assert len(site.counts) < site.pages
    crawls.finish()
    assert set(site.counts) == set(range(site.pages))
    assert all(site.counts[page] == 1 for page in done)


def test_a_full_filter_ends_the_crawl(site, tmp_path):
    """Each link to a page that the filter had no room for was requested again, for ever."""
    crawls = Crawls(site, tmp_path, FIRSTSEEN_CAPACITY=site.pages // 3)
    printed = crawls.finish()
    assert "Closing spider (firstseen_full)" in printed and "FIRSTSEEN_CAPACITY" in printed
    assert set(site.counts.values()) == {1}


def test_a_page_whose_callback_fails_is_done(site, tmp_path):
    """A callback that failed before it returned anything never ended its page, so a kill repeated the failure."""
    crawls = Crawls(site, tmp_path)
    assert "the page cannot be parsed" in crawls.finish(spider="FailingSpider")
    assert crawls.content().is_closed and not crawls.content().pending
    assert set(site.counts.values()) == {1}
