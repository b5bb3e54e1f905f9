"""The duplicate filter for Scrapy and its middleware, without a crawl."""

import asyncio

import pytest

import firstseen
from firstseen import Verdict

scrapy = pytest.importorskip("scrapy")

from scrapy.http import HtmlResponse  # noqa: E402
from scrapy.settings import Settings  # noqa: E402
from scrapy.utils.test import get_crawler  # noqa: E402

import firstseen.scrapy  # noqa: E402
from firstseen.scrapy import Addon, CrawledPages, DupeFilter  # noqa: E402

ADDONS = {"firstseen.scrapy.Addon": 500}


def dupe_filter(settings):
    crawler = get_crawler(settings_dict=settings)
    return DupeFilter.from_crawler(crawler)


def test_settings(tmp_path):
    with pytest.raises(ValueError, match="set ADDONS"):
        dupe_filter({"JOBDIR": str(tmp_path)})
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


def test_settings_of_a_cluster(tmp_path):
    """Settings that a filter of a cluster does not have were ignored, and a kill lost pages without a word."""
    shared = {"FIRSTSEEN_CLUSTER": "127.0.0.1:1", "FIRSTSEEN_FILTER": "pages", "FIRSTSEEN_TIMEOUT": 0.3}
    with pytest.raises(ValueError, match="FIRSTSEEN_FILTER"):
        dupe_filter({"FIRSTSEEN_CLUSTER": "127.0.0.1:1"})
    with pytest.raises(ValueError, match="FIRSTSEEN_CLUSTER_WITHOUT_JOBDIR"):
        dupe_filter(shared)
    for name in ["FIRSTSEEN_FPR", "FIRSTSEEN_WINDOW", "FIRSTSEEN_CAPACITY"]:
        with pytest.raises(ValueError, match=f"{name} has no effect"):
            dupe_filter({**shared, "ADDONS": ADDONS, "JOBDIR": str(tmp_path), name: "1"})
    with pytest.raises(firstseen.ClusterError, match="no node answered"):
        dupe_filter({**shared, "FIRSTSEEN_CLUSTER_WITHOUT_JOBDIR": True})


def test_a_cluster_whose_filter_would_miss_many_pages(cluster_of_1, caplog):
    for rate, warnings in [("0.01", 1), ("1e-9", 0)]:
        caplog.clear()
        name = cluster_of_1.create("--window", "unbounded", "--capacity", "10k", "--fpr", rate)
        shared = {"FIRSTSEEN_CLUSTER": cluster_of_1.address, "FIRSTSEEN_FILTER": name}
        dupe_filter({**shared, "FIRSTSEEN_CLUSTER_WITHOUT_JOBDIR": True}).close("finished")
        assert sum("a share of 0.01 of the new pages" in record.getMessage() for record in caplog.records) == warnings


def test_two_crawls_do_not_share_a_folder(tmp_path):
    """The second crawl deleted the queue of the first one."""
    settings = {"ADDONS": ADDONS, "JOBDIR": str(tmp_path)}
    queue = tmp_path / "requests.queue"
    first = dupe_filter(settings)
    first.open()
    queue.mkdir()
    with pytest.raises(ValueError, match="another crawl uses the folder"):
        dupe_filter(settings)
    assert queue.exists()
    first.close("finished")
    dupe_filter(settings).close("finished")


class Undecided:
    """A filter that cannot judge any page."""

    def observe(self, key, at):
        return Verdict.SLICES_DOWN


def test_an_undecided_page_is_requested_once(monkeypatch):
    """Every link to a page that could not be judged was requested, so that pages in a loop never ended."""
    monkeypatch.setattr(firstseen.scrapy, "UNDECIDED_MAX", 2)
    seen = dupe_filter({})
    pages, seen._pages = seen._pages, Undecided()
    urls = [f"http://a/{number}" for number in range(3)]
    assert [seen.request_seen(scrapy.Request(url)) for url in urls[:2] * 2] == [False, False, True, True]
    # Only the last pages are remembered.
    assert [seen.request_seen(scrapy.Request(urls[number])) for number in (2, 2, 1, 0)] == [False, True, True, False]
    seen._pages = pages
    assert seen.request_seen(scrapy.Request(urls[0])) is True
    assert seen.request_seen(scrapy.Request("http://a/3")) is False


MARK = ["ab", 0]


def output_of(requests, error=None):
    """Returns what the middleware makes of the output of a page, and the request of this page."""
    crawler = get_crawler(settings_dict={"ADDONS": ADDONS})
    request = scrapy.Request("http://a/page")
    mark = [crawler.request_fingerprinter.fingerprint(request).hex(), 0]
    request.meta["firstseen"] = mark
    response = HtmlResponse(request.url, request=request)

    async def callback():
        for make in requests:
            yield make(response)
        if error is not None:
            raise error

    async def collect():
        collected = []
        try:
            async for output in CrawledPages.from_crawler(crawler).process_spider_output(response, callback()):
                collected.append(output)
        except RuntimeError:
            assert error is not None
        return collected

    return asyncio.run(collect()), mark


def link(response):
    return scrapy.Request("http://a/other", meta=response.meta)


def unfiltered_link(response):
    return scrapy.Request("http://a/other", meta=response.meta, dont_filter=True)


def retry(response):
    return response.request.replace(dont_filter=True)


def new_retry(response):
    return scrapy.Request(response.url, dont_filter=True)


@pytest.mark.parametrize("error", [None, RuntimeError()])
def test_a_page_is_ended_unless_its_callback_requests_it_again(error):
    """A retry from a callback bypasses the filter, and its page was done before the retry was sent."""
    for made in [link, unfiltered_link]:
        [request, end], mark = output_of([made], error)
        assert "firstseen" not in request.meta and end.meta["firstseen_end"] == mark
    for made in [retry, new_retry]:
        [other, request], mark = output_of([link, made], error)
        assert request.meta["firstseen"] == mark and "firstseen" not in other.meta
