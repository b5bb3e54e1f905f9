"""Crawls of one site, which the tests start as a process: `spider.py SPIDER URL SETTINGS`."""

import json
import resource
import sys

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess


class SiteSpider(Spider):
    name = "site"

    async def start(self):
        # Scrapy's own `start` requests the first page again whenever a crawl is continued.
        yield Request(self.url)

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


class RenamedSpider(SiteSpider):
    """A spider whose callback has another name."""

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, callback=self.parse_link)

    def parse_link(self, response):
        return self.parse(response)


class FailingSpider(SiteSpider):
    """A spider whose callback, which is no generator, fails on some pages."""

    def parse(self, response):
        if "n=5" in response.url:
            raise RuntimeError("the page cannot be parsed")
        return [response.follow(link) for link in response.css("a::attr(href)").getall()]


class BrokenPipeline:
    def open_spider(self, spider=None):
        raise RuntimeError("the pipeline cannot be opened")

    def process_item(self, item):
        return item


if __name__ == "__main__":
    given = json.loads(sys.argv[3])
    file_bytes_max = given.pop("FILE_BYTES_MAX", None)
    if file_bytes_max is not None:
        # Stands for a full disk: files cannot grow further.
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))
    settings = {
        "ADDONS": {"firstseen.scrapy.Addon": 500},
        "CONCURRENT_REQUESTS": 8,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "INFO",
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
        **given,
    }
    process = CrawlerProcess(settings)
    process.crawl(globals()[sys.argv[1]], url=sys.argv[2])
    process.start()
