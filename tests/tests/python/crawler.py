"""What a crawler of scrapy-redis asks of its duplicate filter, with the door as its Redis: PORT."""

import sys

from scrapy import Request, Spider
from scrapy.settings import Settings
from scrapy_redis.dupefilter import RFPDupeFilter

PORT = int(sys.argv[1])
PAGES = 300


class Pages(Spider):
    name = "pages"
    settings = Settings({"REDIS_URL": f"redis://127.0.0.1:{PORT}"})


def seen(dupes, urls):
    return [dupes.request_seen(Request(url)) for url in urls]


urls = [f"https://shop.example/page?number={number}&by=price" for number in range(PAGES)]
# Two processes of one spider share the filter: what one has asked for, the other does not ask for again.
one, other = (RFPDupeFilter.from_spider(Pages()) for _ in range(2))
assert one.key == "pages:dupefilter", one.key
assert seen(one, urls) == [False] * PAGES
assert seen(other, urls) == [True] * PAGES
# It is the crawler that calls these the same.
same = [f"https://shop.example/page?by=price&number={number}" for number in range(PAGES)]
assert seen(other, same) == [True] * PAGES
posted = Request(urls[0], method="POST", body=b"x")
assert [one.request_seen(posted), other.request_seen(posted)] == [False, True]
# The spider closes, and would delete the key; the next run knows the pages all the same.
one.close("finished")
assert seen(RFPDupeFilter.from_spider(Pages()), [*urls[:50], "https://shop.example/new"]) == [True] * 50 + [False]
print("every page once")
