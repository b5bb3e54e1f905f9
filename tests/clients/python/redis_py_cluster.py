"""Prints what redis-py in cluster mode gets from the Redis endpoint. The argument is the port of the endpoint."""

import json
import sys

import redis

node, port = "127.0.0.1", int(sys.argv[1])

client = redis.RedisCluster(host=node, port=port)

keys = [f"clicks:cluster-{number}" for number in range(100)]


def words(replies):
    return ["new" if reply else "seen" for reply in replies]


alone = [client.set(key, 1, nx=True, ex=600) for key in keys[:20]]
pipeline = client.pipeline()
for key in keys:
    pipeline.set(key, 1, nx=True, ex=600)
pipelined = pipeline.execute()
added = client.sadd("clicks", "cluster-item")
print(json.dumps({"alone": words(alone), "pipelined": words(pipelined), "added": added}))
