"""Uses cache.add of Django, with the Redis endpoint as the server of the cache. The argument is the port of the endpoint."""

import sys
import threading

import django
from django.conf import settings

PORT = int(sys.argv[1])
BACKEND = "django.core.cache.backends.redis.RedisCache"
settings.configure(CACHES={"default": {"BACKEND": BACKEND, "LOCATION": f"redis://127.0.0.1:{PORT}"}})
django.setup()

from django.core.cache import cache  # noqa: E402 - needs the settings
from redis.exceptions import ResponseError  # noqa: E402


def refusal(call, *arguments, **options):
    try:
        said = call(*arguments, **options)
    except ResponseError as error:
        return str(error)
    raise AssertionError(f"{call.__name__} was not refused: {said!r}")


keys = [f"webhook-{number}" for number in range(200)]
assert [cache.add(key, "1", timeout=600) for key in keys] == [True] * 200
assert [cache.add(key, "1", timeout=600) for key in keys] == [False] * 200
# A key without a timeout gets the default of the cache, five minutes. A key whose timeout is None stays.
assert [cache.add("plain", 1), cache.add("plain", 1)] == [True, False]
assert [cache.add("for-ever", 1, timeout=None), cache.add("for-ever", 1, timeout=None)] == [True, False]
assert [cache.has_key(key) for key in ("webhook-7", "webhook-200")] == [True, False]

# If several workers get the same webhook at the same time, one of them handles it.
start, handled = threading.Barrier(8), []


def work():
    start.wait()
    handled.extend(key for key in (f"at-once-{number}" for number in range(40)) if cache.add(key, 1, timeout=600))


workers = [threading.Thread(target=work) for _ in range(8)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
assert sorted(handled) == sorted(f"at-once-{number}" for number in range(40)), handled

# An operation that the endpoint does not support is an error, and has no other effect.
assert "remembers 3600 s" in refusal(cache.add, "long", 1, timeout=7200)
assert "stores no values" in refusal(cache.get, "webhook-7")
assert "stores no values" in refusal(cache.set, "webhook-7", 2, timeout=600)
assert "cannot forget" in refusal(cache.delete, "webhook-7")
assert "no filter is mapped" in refusal(cache.add, "key", 1, version=2)
assert cache.add("webhook-7", 1, timeout=600) is False
print("every webhook once")
