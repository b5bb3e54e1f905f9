"""Executes the script of ../README.md with redis-py. The argument is the port of the Redis endpoint."""

import itertools
import json
import sys
import time

import redis

PATIENCE_S = 120
ALONE = [f"alone-{number}" for number in range(20)]
PIPELINED = [f"pipelined-{number}" for number in range(1000)]
EVENTS_PER_ROUND = 100
SOURCE = "redis-py"

node, port = "127.0.0.1", int(sys.argv[1])

# shown in docs/reference/redis.md
client = redis.Redis(host=node, port=port)


def is_new(event):
    return client.set(f"clicks:{event}", 1, nx=True, ex=600) is True


def are_new(events):
    pipeline = client.pipeline(transaction=False)
    for event in events:
        pipeline.set(f"clicks:{event}", 1, nx=True, ex=600)
    return [reply is True for reply in pipeline.execute()]


# shown until here


def tell(step, saw, **more):
    print(json.dumps({"step": step, "saw": saw, **more}), flush=True)


def word(reply):
    if isinstance(reply, redis.ResponseError):
        return f"error: {reply}"
    assert reply in (True, None), reply
    return "new" if reply else "seen"


def words(answers):
    return ["new" if answer else "seen" for answer in answers]


def transaction():
    pipeline = client.pipeline(transaction=True)
    for _ in range(2):
        pipeline.set("clicks:transaction", 1, nx=True, ex=600)
    pipeline.sadd("clicks", "transaction-item")
    pipeline.exists("clicks:transaction")
    first, second, added, exists = pipeline.execute()
    return [word(first), word(second), added, exists]


def bloom():
    bf = client.bf()
    added = [bf.add("clicks", "bloom"), bf.add("clicks", "bloom"), *bf.madd("clicks", "bloom", "bloom-2")]
    return [bool(one) for one in [*added, bf.exists("clicks", "bloom-2"), bf.exists("clicks", "bloom-3")]]


def claims():
    mine, other = (redis.Redis(host=node, port=port, single_connection_client=True) for _ in range(2))
    saw = [
        mine.execute_command("FS.CLAIM", "jobs:1", "PX", 60000),
        other.execute_command("FS.CLAIM", "jobs:1", "PX", 60000),
        mine.execute_command("FS.CONFIRM", "jobs:1"),
        other.execute_command("FS.CLAIM", "jobs:1", "PX", 60000),
    ]
    code, fence = mine.execute_command("FS.CLAIM", "jobs:2", "PX", 60000, "WITHFENCE")
    saw += [code, other.execute_command("FS.CONFIRM", "jobs:2", "FENCE", fence)]
    saw += [word(one.set("jobs:3", 1, nx=True, px=60000)) for one in (mine, other)]
    saw += [mine.delete("jobs:3"), word(other.set("jobs:3", 1, nx=True, px=60000))]
    mine.close(), other.close()
    return saw


def refused():
    try:
        return word(client.set("clicks:too-long", 1, nx=True, ex=7200))
    except redis.ResponseError as error:
        return str(error)


def observe(number):
    """Records the named events of a round. Because of the name, a retry gets its first verdicts."""
    items = [f"named-{number}-{place}" for place in range(EVENTS_PER_ROUND)]
    return client.execute_command("FS.OBSERVE", "clicks", "ID", SOURCE, number * EVENTS_PER_ROUND, "ITEMS", *items)


class Round:
    """Returns the answers to the events of a round. Events that are undecided, or were never answered, are sent again."""

    def __init__(self, number):
        self.number, self.tries, self.heard, self.named = number, 0, set(), None
        self.keys = {f"round-{number}-{place}": None for place in range(EVENTS_PER_ROUND)}

    def run(self):
        deadline = time.monotonic() + PATIENCE_S
        while not self.attempt():
            assert time.monotonic() < deadline, f"no verdict: {self.heard}"
            time.sleep(0.02)
        tell("round", list(self.keys.values()), named=self.named, tries=self.tries, heard=sorted(self.heard))

    def attempt(self):
        self.tries += 1
        try:
            self.ask()
        except redis.ResponseError as error:
            self.heard.add(str(error))
        except (redis.ConnectionError, redis.TimeoutError):
            pass
        return self.named is not None and all(self.keys.values())

    def ask(self):
        if self.named is None:
            codes = observe(self.number)
            self.heard.update(f"UNDECIDED {code}" for code in codes if code < 0)
            self.named = codes if all(code >= 0 for code in codes) else None
        opened = [event for event, verdict in self.keys.items() if verdict is None]
        pipeline = client.pipeline(transaction=False)
        for event in opened:
            pipeline.set(f"clicks:{event}", 1, nx=True, ex=600)
        for event, reply in zip(opened, pipeline.execute(raise_on_error=False)):
            if isinstance(reply, redis.ResponseError):
                self.heard.add(str(reply))
            else:
                self.keys[event] = word(reply)


tell("connect", "PONG" if client.ping() else "nothing")
tell("alone", words([is_new(event) for event in ALONE + ALONE]))
tell("pipelined", words(are_new(itertools.chain.from_iterable((event, event) for event in PIPELINED))))
tell("transaction", transaction())
tell("bloom", bloom())
tell("claims", claims())
tell("refused", refused())
rounds = []
for line in sys.stdin:
    if line == "over\n":
        break
    rounds.append(Round(len(rounds)))
    rounds[-1].run()
known = [event for one in rounds for event in one.keys]
tell("again", words(are_new(ALONE + PIPELINED + known)))
tell("named again", [code for one in rounds for code in observe(one.number)])
client.close()
