"""Duplicate filter for Scrapy, in bounded memory, for crawls that are continued after they were killed.

Add this to ``settings.py``::

    ADDONS = {"firstseen.scrapy.Addon": 500}

The add-on sets ``DUPEFILTER_CLASS`` to :class:`DupeFilter`, and adds the spider middleware :class:`CrawledPages`, which
tells the filter when a page is done. The page ``docs/how-to/python.md`` describes the settings.
"""

from __future__ import annotations

import fcntl
import logging
import pickle
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy import signals
from scrapy.dupefilters import BaseDupeFilter
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import load_object
from scrapy.utils.request import referer_str, request_from_dict

from firstseen import _crawl_log, _crawl_settings
from firstseen._cluster import ClusterFilter
from firstseen._crawl_log import Content, CrawlLog, CrawlLogError, Seen
from firstseen._errors import Error
from firstseen._firstseen import Filter
from firstseen._verdict import Verdict

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

__all__ = ["Addon", "CrawledPages", "DupeFilter"]

#: Entry in the meta data of a request: its fingerprint, and how often it had been redirected when it was scheduled.
_META = "firstseen"
#: Entry in the meta data of the request that ends the output of a page.
_END_META = "firstseen_end"
#: Number of pages that could not be judged whose fingerprints are kept, so that they are not requested again.
UNDECIDED_MAX = 100_000
#: Reasons why this filter closes a spider.
_FULL, _LOG_FAILED = "firstseen_full", "firstseen_log_failed"

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
    A page is not ended if its callback requests the same page again with ``dont_filter``, as for a retry.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        #: Responses whose output has begun.
        self._begun: WeakSet[Response] = WeakSet()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> CrawledPages:
        """Makes the middleware of a crawl."""
        return cls(crawler)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any], spider: Spider | None = None
    ) -> AsyncIterator[Any]:
        """Passes the output of a page on."""
        self._begun.add(response)
        mark = _mark_of(response)
        is_ended = mark is not None
        try:
            async for output in result:
                if mark is not None and isinstance(output, Request) and self._is_retry(output, response, mark):
                    is_ended = False
                yield output
        except Exception:
            # A page whose callback fails is not fetched again, as without this middleware.
            if mark is not None and is_ended:
                yield _end_of_page(response, mark)
            raise
        if mark is not None and is_ended:
            yield _end_of_page(response, mark)

    def process_spider_exception(self, response: Response, exception: Exception, spider: Spider | None = None) -> None:
        """Ends a page whose callback fails before it has any output."""
        mark = _mark_of(response)
        if mark is not None and response not in self._begun:
            assert self._crawler.engine is not None
            self._crawler.engine.crawl(_end_of_page(response, mark))

    def _is_retry(self, request: Request, response: Response, mark: list[Any]) -> bool:
        """Returns whether a request that bypasses the filter is for the same page, and sets its mark accordingly.

        Callbacks often copy the meta data of a page to the requests for others, which must not end this page.
        """
        request.meta.pop(_META, None)
        if not request.dont_filter:
            # The filter sets the mark of the request.
            return False
        assert self._crawler.request_fingerprinter is not None and response.request is not None
        fingerprint = self._crawler.request_fingerprinter.fingerprint
        if fingerprint(request) not in (bytes.fromhex(mark[0]), fingerprint(response.request)):
            return False
        request.meta[_META] = mark
        return True


def _mark_of(response: Response) -> list[Any] | None:
    return response.request.meta.get(_META) if response.request else None


def _end_of_page(response: Response, mark: list[Any]) -> Request:
    return Request(response.url, meta={_END_META: mark, "allow_offsite": True})


class DupeFilter(BaseDupeFilter):
    """Finds requests for pages that were requested before, as Scrapy's own filter does, in bounded memory.

    The pages are in a filter of this process or, with the setting ``FIRSTSEEN_CLUSTER``, in one that many crawlers
    share. With ``JOBDIR``, a log in this folder contains the requests of pages that are not done yet. If a crawl was
    killed, the next one requests these pages again, instead of using Scrapy's queue, which is consistent only after an
    orderly end.
    """

    def __init__(
        self,
        crawler: Crawler,
        pages: Filter | ClusterFilter,
        folder: Path | None,
        content: Content,
        lock: IO[bytes] | None,
    ) -> None:
        self._crawler = crawler
        self._pages = pages
        self._folder = folder
        self._content = content
        self._lock = lock
        self._log: CrawlLog | None = None
        #: Whether the scheduler has the requests of all pages that are not done. Otherwise, only the log has them.
        self._is_handed_over = content.is_closed
        #: Request of a crawl that was killed, while it is handed to the scheduler.
        self._resumed: Request | None = None
        #: Fingerprints of pages that could not be judged, and were requested by this process.
        self._undecided: dict[bytes, None] = {}
        #: Closing of the spider, if this filter has begun it.
        self._stopping: Any = None
        self._debug = crawler.settings.getbool("DUPEFILTER_DEBUG")
        self._logs_duplicates = True
        self._logs_undecided = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> DupeFilter:
        """Makes the filter of a crawl, or loads it from the folder ``JOBDIR``."""
        settings = crawler.settings
        _crawl_settings.check(settings)
        if not settings["JOBDIR"]:
            return cls(crawler, _crawl_settings.open_pages(settings, None), None, Content(), None)
        if not _has_middleware(settings):
            raise ValueError(
                "JOBDIR is set, but firstseen.scrapy.DupeFilter would not notice which pages are done: "
                'set ADDONS = {"firstseen.scrapy.Addon": 500} instead of DUPEFILTER_CLASS'
            )
        job = Path(settings["JOBDIR"])
        folder = job / "firstseen"
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(folder)
        try:
            pages = _crawl_settings.open_pages(settings, folder / "seen.fs")
            content = _crawl_log.read(_log_path(folder), None if isinstance(pages, ClusterFilter) else _Loader(pages))
            if content.unreadable_bytes:
                message = "The last %d bytes of %s cannot be read and are dropped"
                logger.warning(message, content.unreadable_bytes, _log_path(folder))
            if not content.is_closed:
                # The scheduler has not opened its queue yet. What the queue contains is in the log.
                shutil.rmtree(job / "requests.queue", ignore_errors=True)
        except BaseException:
            lock.close()
            raise
        return cls(crawler, pages, folder, content, lock)

    def open(self) -> None:
        """Begins the crawl, or continues it."""
        if self._folder is None:
            return
        if not self._is_handed_over:
            self._check_requests(self._folder)
        self._log = CrawlLog(_log_path(self._folder), self._content)
        self._crawler.signals.connect(self._request_scheduled, signals.request_scheduled)
        self._crawler.signals.connect(self._spider_opened, signals.spider_opened)

    def close(self, reason: str) -> None:
        """Saves the filter, so that the crawl can be continued."""
        try:
            if self._log is not None:
                self._end_log(self._log)
        finally:
            if isinstance(self._pages, ClusterFilter):
                self._pages.close()
            if self._lock is not None:
                self._lock.close()

    def request_seen(self, request: Request) -> bool:
        """Returns whether the page was requested before. Otherwise, notes that it is requested."""
        if request is self._resumed:
            return False
        assert self._crawler.request_fingerprinter is not None
        fingerprint = self._crawler.request_fingerprinter.fingerprint(request)
        redirects = request.meta.get("redirect_times", 0)
        former = request.meta.get(_META)
        is_seen = self._is_seen(Seen(fingerprint, time.time()), request, redirects)
        if former is not None and redirects > former[1]:
            # The page was redirected here, and leads to nothing else.
            self._done(former)
        if self._log is not None and self._log.is_large and not self._log.has_failed:
            self._compact_running(self._log)
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

    def _is_seen(self, page: Seen, request: Request, redirects: int) -> bool:
        """Records a page in the log, if it is new, and then in the filter.

        A page that is only in the filter would never be crawled if this process died. An exception would end a task of
        Scrapy without a trace, so that the crawl would wait for it for ever.
        """
        if self._log is None:
            return self._observe(page)
        try:
            if isinstance(self._pages, ClusterFilter):
                self._log.asked(page, self._serialized(page, request, redirects))
                is_seen = self._observe(page)
                if not is_seen:
                    self._log.taken(page.fingerprint)
                return is_seen
            if self._pages.test(page.fingerprint, at=page.at) is Verdict.DUPLICATE:
                return True
            if page.fingerprint not in self._undecided:
                self._log.seen(page, self._serialized(page, request, redirects))
            return self._observe(page)
        except CrawlLogError as error:
            # The page that leads to this one is not done, so the next crawl finds this one again.
            self._stop_without_log(error)
            self._count("firstseen/dropped")
            return True

    def _serialized(self, page: Seen, request: Request, redirects: int) -> bytes:
        request.meta[_META] = [page.fingerprint.hex(), redirects]
        try:
            return pickle.dumps(request.to_dict(spider=self._crawler.spider), protocol=4)
        except Exception:
            # Scrapy keeps such requests in memory only, and this filter cannot do better.
            self._count("firstseen/unserializable")
            return b""

    def _observe(self, page: Seen) -> bool:
        """Records a page in the filter, and returns whether it was requested before."""
        is_requested = page.fingerprint in self._undecided
        try:
            verdict = self._pages.observe(page.fingerprint, at=page.at)
            reason = verdict.reason
        except Error as error:
            verdict, reason = Verdict.UNKNOWN, str(error)
        if not verdict.is_undecided:
            return is_requested or verdict is Verdict.DUPLICATE
        # The page is requested once more at most, so that it is not lost, and the crawl ends.
        if not is_requested:
            self._undecided[page.fingerprint] = None
            if len(self._undecided) > UNDECIDED_MAX:
                del self._undecided[next(iter(self._undecided))]
        self._count("firstseen/undecided")
        if verdict is Verdict.FULL:
            self._stop(_FULL, f"The filter has no room for further pages: {self._larger()}")
        elif self._logs_undecided:
            self._logs_undecided = False
            logger.error("A page may be crawled more than once: %s (more such pages are not shown)", reason)
        return is_requested

    def _larger(self) -> str:
        if isinstance(self._pages, ClusterFilter):
            return "create a filter with a larger --capacity, and name it with FIRSTSEEN_FILTER"
        return "start a new crawl with a larger FIRSTSEEN_CAPACITY, or without it (a saved filter keeps its capacity)"

    def _compact(self, log: CrawlLog, is_closed: bool) -> None:
        assert self._folder is not None
        # Saving the filter makes the pages of the log known, so all records of the log must be readable first.
        content = log.content()
        if isinstance(self._pages, Filter):
            self._pages.save(self._folder / "seen.fs")
        log.compact(content, is_closed)

    def _compact_running(self, log: CrawlLog) -> None:
        try:
            self._compact(log, is_closed=False)
        except (OSError, Error) as error:
            if log.has_failed:
                self._stop_without_log(error)
            else:
                logger.error("The log of the crawl cannot be compacted, and grows: %s", error)
                log.compact_later()

    def _end_log(self, log: CrawlLog) -> None:
        """Notes that Scrapy's queue contains the pages that are not done, if it does."""
        try:
            if log.has_failed or not self._is_handed_over:
                logger.warning("The next crawl continues from the log, as after a kill")
                return
            try:
                self._compact(log, is_closed=True)
            except (OSError, Error) as error:
                logger.error("The log of the crawl cannot be compacted: %s", error)
                log.closed()
        except CrawlLogError as error:
            logger.error("The next crawl continues from the log, as after a kill: %s", error)
        finally:
            log.close()

    def _done(self, mark: list[Any]) -> None:
        if self._log is None or self._log.has_failed:
            return
        try:
            self._log.done(bytes.fromhex(mark[0]))
        except CrawlLogError as error:
            self._stop_without_log(error)

    def _stop_without_log(self, error: Exception) -> None:
        text = f"The crawl is stopped: {error}. Start it again when the log can be written, and no page is lost"
        self._stop(_LOG_FAILED, text)

    def _stop(self, reason: str, message: str) -> None:
        """Closes the spider."""
        if self._stopping is not None:
            return
        logger.error(message)
        engine = self._crawler.engine
        assert engine is not None and self._crawler.spider is not None
        if hasattr(engine, "close_spider_async"):
            self._stopping = deferred_from_coro(engine.close_spider_async(reason=reason))
        else:
            self._stopping = engine.close_spider(self._crawler.spider, reason)

    def _request_scheduled(self, request: Request, spider: Spider) -> None:
        mark = request.meta.get(_END_META)
        if mark is None:
            return
        self._done(mark)
        raise IgnoreRequest("the end of a page")

    def _check_requests(self, folder: Path) -> None:
        """Raises an exception if a request of a crawl that was killed cannot be restored."""
        for page, data in _crawl_log.requests(_log_path(folder), self._content):
            fields: dict[str, Any] = {}
            try:
                if data:
                    fields = pickle.loads(data)
                    request_from_dict(fields, spider=self._crawler.spider)
            except Exception as error:
                name = fields.get("url", f"with the fingerprint {page.fingerprint.hex()}")
                raise ValueError(
                    f"the crawl cannot be continued: the request for the page {name} cannot be restored: {error}. "
                    f"Give the spider what is missing, or delete {folder.parent} to crawl all pages again. "
                    "All pages are still queued"
                ) from error

    def _spider_opened(self, spider: Spider) -> None:
        """Requests the pages again that a crawl had not done when it was killed."""
        if self._is_handed_over:
            return
        assert self._crawler.engine is not None and self._folder is not None
        logger.info("Continuing a crawl that was killed (%d pages are requested again)", len(self._content.pending))
        for _, data in _crawl_log.requests(_log_path(self._folder), self._content):
            if data:
                self._resumed = request_from_dict(pickle.loads(data), spider=spider)
                self._crawler.engine.crawl(self._resumed)
        self._resumed = None
        self._content = Content()
        self._is_handed_over = True

    def _count(self, name: str) -> None:
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value(name)


class _Loader:
    """Records the pages of a log in a filter."""

    def __init__(self, pages: Filter) -> None:
        self._pages = pages

    def __call__(self, page: Seen) -> None:
        self._pages.observe(page.fingerprint, at=page.at)


def _log_path(folder: Path) -> Path:
    return folder / "crawl.log"


def _locked(folder: Path) -> IO[bytes]:
    """Reserves the folder for this crawl until the file is closed."""
    file = (folder / "lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ValueError(
            f"another crawl uses the folder {folder.parent}: wait until it has ended, or choose another JOBDIR"
        ) from None
    return file


def _has_middleware(settings: BaseSettings) -> bool:
    middlewares = settings.getwithbase("SPIDER_MIDDLEWARES")
    return any(order is not None and load_object(name) is CrawledPages for name, order in middlewares.items())
