"""Crawls a site with Scrapy and the scheduler of scrapy-redis. The arguments are PORT [CRAWL].

The scheduler keeps its queue in a Redis server (here fakeredis), and asks the Redis endpoint of firstseen whether a page was
seen. Without CRAWL the program starts the site, the Redis server and three crawls, each in a process of its own. Two of the
crawls run at the same time.
"""

import http.server
import os
import subprocess
import sys
import threading

from fakeredis import TcpFakeServer
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy_redis.connection import get_redis
from scrapy_redis.dupefilter import RFPDupeFilter

PAGES = 120
LINKS_PER_PAGE = 12


# shown in docs/reference/redis.md
class DoorDupeFilter(RFPDupeFilter):
    """Asks the firstseen endpoint whether a page was seen. The scheduler's queue stays in Redis."""

    @classmethod
    def from_spider(cls, spider):
        dupefilter = super().from_spider(spider)
        dupefilter.server = get_redis(url=spider.settings["DUPEFILTER_REDIS_URL"])
        return dupefilter

    def clear(self):
        """Does nothing when a spider closes, because pages expire with the filter's window."""


# shown until here


class Pages(Spider):
    name = "pages"

    async def start(self):
        # Scrapy requests the first page of every crawl, even if it was seen before.
        yield Request(f"http://127.0.0.1:{os.environ['SITE_PORT']}/0?of=shop&by=price", dont_filter=True)

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


def crawl(port):
    settings = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "SCHEDULER_QUEUE_KEY": f"%(spider)s:requests:{os.getpid()}",
        "REDIS_URL": f"redis://127.0.0.1:{os.environ['QUEUE_PORT']}",
        "DUPEFILTER_CLASS": f"{__name__}.DoorDupeFilter",
        "DUPEFILTER_REDIS_URL": f"redis://127.0.0.1:{port}",
        "TELNETCONSOLE_ENABLED": False,
        "RETRY_ENABLED": False,
        "LOG_LEVEL": "ERROR",
    }
    process = CrawlerProcess(settings)
    process.crawl(Pages)
    process.start()


class Site(http.server.BaseHTTPRequestHandler):
    """Serves pages that link to each other. The parameters of a link are in varying order."""

    asked, counting = {}, threading.Lock()

    def do_GET(self):
        number = int(self.path[1:].split("?")[0])
        with self.counting:
            self.asked[number] = self.asked.get(number, 0) + 1
        links = [(number * LINKS_PER_PAGE + place + 1) % PAGES for place in range(LINKS_PER_PAGE)]
        orders = ["?of=shop&by=price", "?by=price&of=shop"]
        body = "".join(f'<a href="/{link}{orders[(number + link) % 2]}">{link}</a>' for link in links).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def started(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def main(port):
    queue = TcpFakeServer(("127.0.0.1", 0))
    queue.daemon_threads = True
    site_port = started(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site))
    environment = {**os.environ, "SITE_PORT": str(site_port), "QUEUE_PORT": str(started(queue))}

    def start():
        return subprocess.Popen([sys.executable, __file__, port, "crawl"], env=environment)

    at_once = [start(), start()]
    assert [process.wait() for process in at_once] == [0, 0]
    first_page = Site.asked.pop(0)
    assert Site.asked == {number: 1 for number in range(1, PAGES)}, Site.asked
    # The spiders are closed, but the next run still knows the pages.
    assert start().wait() == 0
    assert Site.asked.pop(0) <= 2, "the first page, and at most one link to it"
    assert first_page <= 3 and set(Site.asked.values()) == {1}, (first_page, Site.asked)
    print("every page once", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        crawl(sys.argv[1])
    else:
        main(sys.argv[1])
        os._exit(0)  # threads of the queue's connections would keep the process running
