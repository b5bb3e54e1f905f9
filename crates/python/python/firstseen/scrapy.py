"""Duplicate filter for Scrapy, in bounded memory, for crawls that are continued after they were killed.

Add this to ``settings.py``::

    ADDONS = {"firstseen.scrapy.Addon": 500}

The add-on sets ``DUPEFILTER_CLASS`` to :class:`DupeFilter`, and adds the spider middleware :class:`CrawledPages`, which
tells the filter when a page is done. The page ``docs/how-to/python.md`` describes the settings.
"""

from __future__ import annotations

import logging
import pickle
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.dupefilters import BaseDupeFilter
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response
from scrapy.utils.misc import load_object
from scrapy.utils.request import referer_str, request_from_dict

from firstseen import _crawl_log
from firstseen._cluster import ClusterFilter, connect
from firstseen._crawl_log import Content, CrawlLog, Seen
from firstseen._firstseen import Filter
from firstseen._verdict import Verdict

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

__all__ = ["Addon", "CrawledPages", "DupeFilter"]

#: Share of new pages that are taken for pages that were crawled, and are then not crawled.
FPR = 1e-9
#: Entry in the meta data of a request: its fingerprint, and how often it had been redirected when it was scheduled.
_META = "firstseen"
#: Entry in the meta data of the request that ends the output of a page.
_END_META = "firstseen_end"

logger = logging.getLogger(__name__)


class Addon:
    """Sets the duplicate filter, and adds the spider middleware that it needs."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Changes the settings of a crawl."""
        settings.set("DUPEFILTER_CLASS", DupeFilter, "addon")
        settings.setdefault_in_component_priority_dict("SPIDER_MIDDLEWARES", CrawledPages, 0)


class CrawledPages:
    """Spider middleware that ends the output of each page with a request which is never sent.

    The requests of a page are scheduled in order. So when the last one arrives at the filter, all others are scheduled.
    """

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any], spider: Spider | None = None
    ) -> AsyncIterator[Any]:
        """Passes the output of a page on."""
        mark = response.request.meta.get(_META) if response.request else None
        try:
            async for output in result:
                yield output
        except Exception:
            # A page whose callback fails is not fetched again, as without this middleware.
            if mark is not None:
                yield _end_of_page(response, mark)
            raise
        if mark is not None:
            yield _end_of_page(response, mark)


def _end_of_page(response: Response, mark: list[Any]) -> Request:
    return Request(response.url, meta={_END_META: mark, "allow_offsite": True})


class DupeFilter(BaseDupeFilter):
    """Finds requests for pages that were requested before, as Scrapy's own filter does, in bounded memory.

    The pages are in a filter of this process or, with the setting ``FIRSTSEEN_CLUSTER``, in one that many crawlers
    share. With ``JOBDIR``, a log in this folder contains the requests of pages that are not done yet. If a crawl was
    killed, the next one requests these pages again, instead of using Scrapy's queue, which is consistent only after an
    orderly end.
    """

    def __init__(self, crawler: Crawler, pages: Filter | ClusterFilter, folder: Path | None, content: Content) -> None:
        self._crawler = crawler
        self._pages = pages
        self._folder = folder
        self._content = content
        self._log: CrawlLog | None = None
        #: Fingerprints of the pages that are requested again.
        self._resumed: set[bytes] = set()
        self._debug = crawler.settings.getbool("DUPEFILTER_DEBUG")
        self._logs_duplicates = True
        self._logs_undecided = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> DupeFilter:
        """Makes the filter of a crawl, or loads it from the folder ``JOBDIR``."""
        settings = crawler.settings
        if not settings["JOBDIR"]:
            return cls(crawler, _pages(settings, None), None, Content())
        if not _has_middleware(settings):
            raise ValueError(
                "JOBDIR is set, but firstseen.scrapy.DupeFilter would not notice which pages are done: "
                'set ADDONS = {"firstseen.scrapy.Addon": 500} instead of DUPEFILTER_CLASS'
            )
        job = Path(settings["JOBDIR"])
        folder = job / "firstseen"
        folder.mkdir(parents=True, exist_ok=True)
        pages = _pages(settings, folder / "seen.fs")
        visit = None if isinstance(pages, ClusterFilter) else _Loader(pages)
        content = _crawl_log.read(folder / "crawl.log", visit)
        if not content.is_closed:
            # The scheduler has not opened its queue yet. What the queue contains is in the log.
            shutil.rmtree(job / "requests.queue", ignore_errors=True)
        return cls(crawler, pages, folder, content)

    def open(self) -> None:
        """Begins the crawl, or continues it."""
        if self._folder is None:
            return
        self._log = CrawlLog(self._folder / "crawl.log", self._content)
        self._crawler.signals.connect(self._request_scheduled, signals.request_scheduled)
        self._crawler.signals.connect(self._spider_opened, signals.spider_opened)

    def close(self, reason: str) -> None:
        """Saves the filter, so that the crawl can be continued."""
        if self._log is not None:
            self._compact(is_closed=True)
            self._log.close()
        if isinstance(self._pages, ClusterFilter):
            self._pages.close()

    def request_seen(self, request: Request) -> bool:
        """Returns whether the page was requested before. Otherwise, notes that it is requested."""
        assert self._crawler.request_fingerprinter is not None
        fingerprint = self._crawler.request_fingerprinter.fingerprint(request)
        if fingerprint in self._resumed:
            self._resumed.discard(fingerprint)
            return False
        redirects = request.meta.get("redirect_times", 0)
        former = request.meta.get(_META)
        page = Seen(fingerprint, time.time())
        is_seen = self._note(page, request, redirects)
        if self._log is not None and former is not None and redirects > former[1]:
            # The page was redirected here, and leads to nothing else.
            self._log.done(bytes.fromhex(former[0]))
        if self._log is not None and self._log.is_large:
            self._compact(is_closed=False)
        return is_seen

    def log(self, request: Request, spider: Spider) -> None:
        """Logs a request that was filtered out: all of them with ``DUPEFILTER_DEBUG``, and else only the first."""
        if self._debug or self._logs_duplicates:
            message = "Filtered duplicate request: %(request)s (referer: %(referer)s)"
            if not self._debug:
                message += " - no more duplicates will be shown (see DUPEFILTER_DEBUG to show all duplicates)"
            arguments = {"request": request, "referer": referer_str(request)}
            logger.debug(message, arguments, extra={"spider": spider})
            self._logs_duplicates = False
        self._count("dupefilter/filtered")

    def _note(self, page: Seen, request: Request, redirects: int) -> bool:
        """Records a page in the filter and, if it is new, its request in the log."""
        if self._log is None:
            return self._observe(page)
        if isinstance(self._pages, ClusterFilter):
            # In the log first: a page that is only in the shared filter would never be crawled if this process died.
            self._log.asked(page, self._serialized(page, request, redirects))
            is_seen = self._observe(page)
            if not is_seen:
                self._log.taken(page.fingerprint)
            return is_seen
        is_seen = self._observe(page)
        if not is_seen:
            self._log.seen(page, self._serialized(page, request, redirects))
        return is_seen

    def _serialized(self, page: Seen, request: Request, redirects: int) -> bytes:
        request.meta[_META] = [page.fingerprint.hex(), redirects]
        try:
            return pickle.dumps(request.to_dict(spider=self._crawler.spider), protocol=4)
        except Exception:
            # Scrapy keeps such requests in memory only, and this filter cannot do better.
            self._count("firstseen/unserializable")
            return b""

    def _observe(self, page: Seen) -> bool:
        verdict = self._pages.observe(page.fingerprint, at=page.at)
        if verdict.is_undecided:
            # The page is requested, perhaps a second time, so that none is lost.
            self._count("firstseen/undecided")
            if self._logs_undecided:
                self._logs_undecided = False
                logger.error("A page may be crawled more than once: %s (more such pages are not shown)", verdict.reason)
        return verdict is Verdict.DUPLICATE

    def _compact(self, is_closed: bool) -> None:
        assert self._log is not None and self._folder is not None
        if isinstance(self._pages, Filter):
            self._pages.save(self._folder / "seen.fs")
        self._log.compact(is_closed)

    def _request_scheduled(self, request: Request, spider: Spider) -> None:
        mark = request.meta.get(_END_META)
        if mark is None:
            return
        if self._log is not None:
            self._log.done(bytes.fromhex(mark[0]))
        raise IgnoreRequest("the end of a page")

    def _spider_opened(self, spider: Spider) -> None:
        """Requests the pages again that a crawl had not done when it was killed."""
        if self._content.is_closed:
            return
        pending = [data for _, data in self._content.pending.values() if data]
        self._resumed = {fingerprint for fingerprint, (_, data) in self._content.pending.items() if data}
        self._content = Content()
        logger.info("Continuing a crawl that was killed (%d pages are requested again)", len(pending))
        assert self._crawler.engine is not None
        for data in pending:
            self._crawler.engine.crawl(request_from_dict(pickle.loads(data), spider=spider))

    def _count(self, name: str) -> None:
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value(name)


class _Loader:
    """Records the pages of a log in a filter."""

    def __init__(self, pages: Filter) -> None:
        self._pages = pages

    def __call__(self, page: Seen) -> None:
        self._pages.observe(page.fingerprint, at=page.at)


def _has_middleware(settings: BaseSettings) -> bool:
    middlewares = settings.getwithbase("SPIDER_MIDDLEWARES")
    return any(order is not None and load_object(name) is CrawledPages for name, order in middlewares.items())


def _pages(settings: BaseSettings, saved: Path | None) -> Filter | ClusterFilter:
    """Connects to the filter of a cluster, or loads the saved filter, or makes a new one."""
    addresses = settings.get("FIRSTSEEN_CLUSTER")
    if addresses:
        name = settings.get("FIRSTSEEN_FILTER")
        if not name:
            raise ValueError("FIRSTSEEN_CLUSTER is set: name the filter of the cluster with FIRSTSEEN_FILTER")
        return connect(
            addresses,
            name,
            site=settings.get("FIRSTSEEN_SITE"),
            tls_ca=settings.get("FIRSTSEEN_TLS_CA"),
            tls_cert=settings.get("FIRSTSEEN_TLS_CERT"),
            tls_key=settings.get("FIRSTSEEN_TLS_KEY"),
            token_file=settings.get("FIRSTSEEN_TOKEN_FILE"),
            timeout=settings.getfloat("FIRSTSEEN_TIMEOUT", 5.0),
        )
    if saved is not None and saved.exists():
        return Filter.load(saved)
    capacity = settings.getint("FIRSTSEEN_CAPACITY")
    return Filter(
        window=settings.get("FIRSTSEEN_WINDOW", "unbounded"),
        capacity=capacity or None,
        fpr=settings.getfloat("FIRSTSEEN_FPR", FPR),
    )
