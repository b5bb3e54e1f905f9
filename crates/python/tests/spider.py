"""A crawl of one site, which the tests start as a process: `spider.py URL SETTINGS`."""

import json
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


if __name__ == "__main__":
    settings = {
        "ADDONS": {"firstseen.scrapy.Addon": 500},
        "CONCURRENT_REQUESTS": 8,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "INFO",
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
        **json.loads(sys.argv[2]),
    }
    process = CrawlerProcess(settings)
    process.crawl(SiteSpider, url=sys.argv[1])
    process.start()
