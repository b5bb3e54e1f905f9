"""Django site that handles each webhook once. The argument is the port of the Redis endpoint, which remembers the webhooks.

The site has a second cache for sessions and pages. That cache stores values, so the endpoint cannot serve it.
"""

import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import django
from django.conf import settings

PORT = int(sys.argv[1])
WEBHOOKS, WORKERS = 60, 8

# shown in docs/reference/redis.md
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "seen": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": f"redis://127.0.0.1:{PORT}",
        "KEY_PREFIX": "webhooks",  # keys begin with `webhooks:1:`
    },
}
# shown until here

MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.common.CommonMiddleware"]
settings.configure(
    CACHES=CACHES,
    MIDDLEWARE=MIDDLEWARE,
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
)
django.setup()

from django.core.cache import caches  # noqa: E402 - needs the settings
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

handled, counting = [], threading.Lock()


def webhook(request, number):
    request.session["last"] = number
    # shown in docs/reference/redis.md
    if not caches["seen"].add(f"webhook-{number}", 1, timeout=600):
        return HttpResponse("seen", status=208)
    # shown until here
    with counting:
        handled.append(number)
    return HttpResponse("new", status=201)


urlpatterns = [path("webhooks/<int:number>", webhook)]


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


server = ThreadedWSGIServer(("127.0.0.1", 0), Quiet)
server.set_app(get_wsgi_application())
threading.Thread(target=server.serve_forever, daemon=True).start()


def post(number):
    url = f"http://127.0.0.1:{server.server_address[1]}/webhooks/{number}"
    with urllib.request.urlopen(urllib.request.Request(url, data=b"{}", method="POST")) as reply:
        return reply.status


# Each webhook arrives from several senders at the same time, and again later.
with ThreadPoolExecutor(WORKERS) as senders:
    statuses = list(senders.map(post, [number for number in range(WEBHOOKS) for _ in range(4)]))
assert sorted(handled) == list(range(WEBHOOKS)), handled
assert statuses.count(201) == WEBHOOKS and statuses.count(208) == 3 * WEBHOOKS, statuses
assert {post(number) for number in range(WEBHOOKS)} == {208}
# If the cache cannot answer, the request fails visibly, and no webhook is lost silently.
try:
    caches["seen"].add("too-long", 1, timeout=7200)
    raise AssertionError("a time beyond the window was taken")
except caches["seen"]._cache._lib.exceptions.ResponseError as error:
    assert "remembers 600 s" in str(error), error
print("every webhook once")
