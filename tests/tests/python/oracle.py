"""Sends random commands to fakeredis and to a Redis endpoint, and compares the replies.

The arguments are PORT PROTOCOL SEED COMMANDS. The program prints one JSON object: how often each command was sent, how often
each row of UNLIKE applied, and which replies differ. The endpoint maps `dedup:` to a filter, and has a filter
`tagsPROTOCOL`. The error rates of all filters are so small that no false positives occur.
"""

import collections
import json
import random
import sys

import fakeredis
import redis

PORT, PROTOCOL, SEED, COMMANDS = (int(argument) for argument in sys.argv[1:5])

# Replies that intentionally differ from Redis. A command of such a row is not sent to fakeredis, because fakeredis would do
# what the endpoint does not. Each row has the reply of the endpoint, and the reason.
UNLIKE = {
    "GET of a key": ("ERR firstseen stores no values", "no values"),
    "SET without NX": ("ERR firstseen stores no values", "no values"),
    "SET with XX": ("ERR syntax error: firstseen stores no values", "no values"),
    "INCR of a key": ("ERR firstseen stores no values", "no values"),
    "APPEND to a key": ("ERR firstseen stores no values", "no values"),
    "SCARD of a filter": ("ERR firstseen counts no events", "events are not counted one by one"),
    "EX beyond the window": ("ERR invalid expire time: filter 'clicks' remembers 3600 s", "a time is never cut short"),
    "SET of a key without filter": ("ERR no filter is mapped to this key", "keys are mapped to filters"),
    "DEL of a key": (0, "nothing is forgotten on request; the sandbox drops filters, and keys are none"),
    "SREM": (0, "nothing is forgotten on request"),
    "TYPE of a set": (b"MBbloom--", "what SADD fills is a filter"),
    "TYPE of a key": (b"none", "a key is an event of a filter, and no thing of its own"),
    "EXISTS of a filter": ("ERR no filter is mapped to this key", "EXISTS asks whether keys were seen, and no filter is a key"),
    "EXISTS of a key without filter": ("ERR no filter is mapped to this key", "0 would say that the key is new"),
    "WATCH": ("ERR firstseen watches no keys", "transactions are carried out in a row, and others may come between"),
    "unknown option of BF.RESERVE": ("ERR syntax error", "RedisBloom ignores what it does not know"),
}

# Commands of RedisBloom whose replies are booleans in version 3 of the protocol. fakeredis replies with integers.
BOOLEANS = {"BF.ADD", "BF.MADD", "BF.EXISTS", "BF.MEXISTS", "BF.INSERT"}

# Errors for which fakeredis has its own text. Only the fact that both servers return an error is compared.
WORDS_OF_ITS_OWN = {"BF.INSERT", "BF.INFO", "BF.RESERVE", "NOSUCH"}

# Texts of fakeredis that differ from those of Redis 7.
MENDED = {"invalid expire time in set": "invalid expire time in 'set' command"}

Asked = collections.namedtuple("Asked", "words unlike", defaults=[None])


class Sequence:
    """Draws random commands. Filters with few items are created by their first use, with the default error rate of one in a hundred."""

    def __init__(self, dice):
        self.dice = dice
        self.filters = [f"bf{PROTOCOL}{number}" for number in range(5)]
        self.by_use = [f"use{PROTOCOL}{number}" for number in range(3)]
        self.sets = [f"set{PROTOCOL}{number}" for number in range(2)]

    def item(self, most):
        number = self.dice.randrange(most)
        # Items are arbitrary bytes. Some are empty, contain line ends, are not valid text, or are long.
        odd = {0: b"", 1: b"\r\n", 2: b"\xff\x00\xfe", 3: b"x" * 5000}
        return odd.get(number, b"item-%d-%d" % (PROTOCOL, number))

    def items(self, most, count=6):
        return [self.item(most) for _ in range(self.dice.randint(1, count))]

    def key(self):
        return f"dedup:{PROTOCOL}:{self.dice.randrange(150)}"

    def unmapped(self):
        return f"other:{PROTOCOL}:{self.dice.randrange(9)}"

    def bloom(self):
        name = self.dice.choice(self.filters)
        return self.dice.choices(
            [
                lambda: ["BF.ADD", name, self.item(60)],
                lambda: ["BF.MADD", name, *self.items(60)],
                lambda: ["BF.EXISTS", name, self.item(60)],
                lambda: ["BF.MEXISTS", name, *self.items(60)],
                lambda: ["BF.INSERT", name, "NOCREATE", "ITEMS", *self.items(60)],
                lambda: ["BF.CARD", name],
                lambda: ["BF.INFO", name, self.dice.choice(["CAPACITY", "ITEMS", "EXPANSION"])],
                lambda: ["TYPE", name],
            ],
            [6, 4, 6, 4, 2, 3, 1, 1],
        )[0]()

    def used(self):
        name = self.dice.choice(self.by_use)
        return self.dice.choice(
            [
                lambda: ["BF.ADD", name, self.item(6)],
                lambda: ["BF.MADD", name, *self.items(6)],
                lambda: ["BF.INSERT", name, "ITEMS", *self.items(6)],
                lambda: ["BF.EXISTS", name, self.item(6)],
                lambda: ["BF.CARD", name],
            ]
        )()

    def of_set(self):
        name, most = self.dice.choice([(f"tags{PROTOCOL}", 80), (self.dice.choice(self.sets), 6)])
        return self.dice.choice(
            [
                lambda: ["SADD", name, *self.items(most)],
                lambda: ["SISMEMBER", name, self.item(most)],
                lambda: ["SMISMEMBER", name, *self.items(most)],
            ]
        )()

    def of_keys(self):
        key = self.key()
        return self.dice.choice(
            [
                lambda: ["SET", key, "1", "NX", "EX", str(self.dice.randint(1800, 3600))],
                lambda: ["set", key, "1", "px", "3600000", "nx"],
                lambda: ["SET", key, "a value", "NX"],
                lambda: ["SETNX", key, "1"],
                lambda: ["EXISTS", key, key, *(self.key() for _ in range(self.dice.randrange(4)))],
            ]
        )()

    def plain(self):
        return self.dice.choice(
            [
                lambda: ["ECHO", self.item(20)],
                lambda: ["PING"],
                lambda: ["PING", self.item(20)],
                lambda: ["GET", self.unmapped()],
                lambda: ["TYPE", self.unmapped()],
                lambda: ["SELECT", "0"],
            ]
        )()

    def wrong(self):
        key, name = self.key(), self.dice.choice(self.filters)
        return self.dice.choice(
            [
                ["BF.ADD", name],
                ["BF.ADD", name, "a", "b"],
                ["BF.MADD", name],
                ["BF.EXISTS", name],
                ["BF.CARD"],
                ["BF.INSERT", name, "ITEMS"],
                ["BF.INSERT", name, "CAPACITY", "x", "ITEMS", "a"],
                ["BF.RESERVE", name, "x", "10"],
                ["BF.RESERVE", name, "0.1"],
                ["BF.INFO", name, "NOTHING"],
                ["BF.INFO", f"none{PROTOCOL}"],
                ["BF.INSERT", f"none{PROTOCOL}", "NOCREATE", "ITEMS", "a"],
                ["SADD", f"tags{PROTOCOL}"],
                ["SISMEMBER", f"tags{PROTOCOL}"],
                ["SETNX", key],
                ["SET", key],
                ["SET", key, "1", "NX", "EX", "0"],
                ["SET", key, "1", "NX", "EX", "-5"],
                ["SET", key, "1", "NX", "EX", "ten"],
                ["SET", key, "1", "NX", "EX"],
                ["SET", key, "1", "NX", "EX", "10", "PX", "10"],
                ["SET", key, "1", "NX", "WHAT"],
                ["ECHO"],
                ["EXEC"],
                ["DISCARD"],
                ["EXISTS"],
                ["NOSUCH", "thing", "at all"],
            ]
        )

    def unlike(self):
        key, name = self.key(), self.dice.choice(self.filters)
        return self.dice.choice(
            [
                Asked(["GET", key], "GET of a key"),
                Asked(["SET", key, "1", "EX", "60"], "SET without NX"),
                Asked(["SET", key, "1", "XX"], "SET with XX"),
                Asked(["INCR", key], "INCR of a key"),
                Asked(["APPEND", key, "x"], "APPEND to a key"),
                Asked(["SCARD", f"tags{PROTOCOL}"], "SCARD of a filter"),
                Asked(["SET", key, "1", "NX", "EX", "3601"], "EX beyond the window"),
                Asked(["SET", self.unmapped(), "1", "NX"], "SET of a key without filter"),
                Asked(["DEL", key], "DEL of a key"),
                Asked(["SREM", f"tags{PROTOCOL}", self.item(80)], "SREM"),
                Asked(["TYPE", f"tags{PROTOCOL}"], "TYPE of a set"),
                Asked(["TYPE", key], "TYPE of a key"),
                Asked(["EXISTS", f"tags{PROTOCOL}"], "EXISTS of a filter"),
                Asked(["EXISTS", self.unmapped()], "EXISTS of a key without filter"),
                Asked(["BF.RESERVE", f"odd{PROTOCOL}", "0.1", "10", "WHAT"], "unknown option of BF.RESERVE"),
            ]
        )

    def drop(self):
        """Drops filters, asks about missing filters, and creates the filters again. Commands before that do not find them."""
        names = self.dice.sample(self.filters + self.by_use + self.sets, 2)
        yield ["DEL", *names]
        for name in names:
            if name in self.sets:
                yield from (["SISMEMBER", name, "x"], ["SMISMEMBER", name, "x", "y"])
                continue
            yield from (["BF.EXISTS", name, "x"], ["BF.MEXISTS", name, "x", "y"], ["BF.CARD", name])
            yield from (["BF.INFO", name], ["TYPE", name], ["BF.INSERT", name, "NOCREATE", "ITEMS", "x"])
            if name in self.filters:
                yield self.dice.choice([self.filled, self.reserve])(name)

    def reserve(self, name=None):
        name = name or self.dice.choice(self.filters)
        options = self.dice.choice([[], [], ["EXPANSION", "4"], ["NONSCALING"], ["EXPANSION", "1"]])
        return ["BF.RESERVE", name, "1e-8", str(self.dice.randint(200, 2000)), *options]

    def insert(self):
        options = ["CAPACITY", "500", "ERROR", "0.00000001"]
        return ["BF.INSERT", self.dice.choice(self.filters), *options, "ITEMS", *self.items(60)]

    def ordinary(self):
        kinds = [self.bloom, self.used, self.of_set, self.of_keys, self.plain, self.reserve, self.insert]
        return Asked(self.dice.choices(kinds, [10, 4, 6, 8, 3, 1, 1])[0]())

    def batch(self):
        """Sends a pipeline. Parts of it are a transaction, and some commands are rejected."""
        roll = self.dice.random()
        if roll < 0.15:
            inside = [self.ordinary() for _ in range(self.dice.randint(0, 12))]
            if self.dice.random() < 0.2:
                inside.insert(self.dice.randint(0, len(inside)), Asked(["BF.ADD", f"tags{PROTOCOL}"]))
            end = "DISCARD" if self.dice.random() < 0.2 else "EXEC"
            return [Asked(["MULTI"]), *inside, Asked([end])]
        if roll < 0.17:
            # redis-py sends this command separately.
            return [Asked(["WATCH", self.key()], "WATCH")]
        if roll < 0.24:
            return [Asked(words) for words in self.drop()]
        draw = [self.ordinary, lambda: Asked(self.wrong()), self.unlike]
        return [self.dice.choices(draw, [80, 6, 6])[0]() for _ in range(self.dice.randint(1, 30))]

    def filled(self, name):
        return ["BF.INSERT", name, "CAPACITY", "1000", "ERROR", "1e-8", "ITEMS", self.item(60)]


def ask(client, batch):
    if [asked.unlike for asked in batch] == ["WATCH"]:
        try:
            return [client.execute_command(*batch[0].words)]
        except redis.exceptions.ResponseError as error:
            return [error]
    pipe = client.pipeline(transaction=False)
    for asked in batch:
        pipe.execute_command(*asked.words)
    return pipe.execute(raise_on_error=False)


def is_error(reply):
    return isinstance(reply, Exception)


def is_same(words, ours, theirs):
    name = words[0].upper()
    if is_error(ours) or is_error(theirs):
        if not (is_error(ours) and is_error(theirs)):
            return False
        return name in WORDS_OF_ITS_OWN or str(ours) == MENDED.get(str(theirs), str(theirs))
    if name in BOOLEANS:
        flat = ours if isinstance(ours, list) else [ours]
        if not all(type(one) is (bool if PROTOCOL == 3 else int) for one in flat):
            return False
    elif type(ours) is not type(theirs):
        return False
    return ours == theirs


def is_as_said(expected, reply):
    if not isinstance(expected, str):
        return type(reply) is type(expected) and reply == expected
    # redis-py removes the first word of an error.
    return is_error(reply) and expected.removeprefix("ERR ") in str(reply)


def compare(batch, ours, theirs, found):
    queued = []
    for asked in batch:
        words, ours_said = asked.words, next(ours)
        if asked.unlike:
            found.met[asked.unlike] += 1
            expected = UNLIKE[asked.unlike][0]
            if not is_as_said(expected, ours_said):
                found.add(words, ours_said, expected)
            continue
        theirs_said = next(theirs)
        found.sent[words[0].upper()] += 1
        if words[0] == "EXEC" and isinstance(ours_said, list) and isinstance(theirs_said, list):
            if len(ours_said) != len(queued) or len(theirs_said) != len(queued):
                found.add(words, ours_said, theirs_said)
            for inside, one, other in zip(queued, ours_said, theirs_said):
                if not is_same(inside, one, other):
                    found.add(["in a transaction", *inside], one, other)
            continue
        queued.append(words) if ours_said == b"QUEUED" else None
        if ours_said == b"QUEUED" and theirs_said == b"QUEUED":
            continue
        if not is_same(words, ours_said, theirs_said):
            found.add(words, ours_said, theirs_said)


class Found:
    def __init__(self):
        self.sent, self.met, self.differences = collections.Counter(), collections.Counter(), []

    def add(self, words, ours, theirs):
        self.differences.append({"asked": repr(words)[:300], "endpoint": repr(ours)[:300], "oracle": repr(theirs)[:300]})


def main():
    endpoint = redis.Redis(port=PORT, protocol=PROTOCOL)
    oracle = fakeredis.FakeRedis(server_type="redis", version=(7, 2), protocol=PROTOCOL)
    for client in (endpoint, oracle):
        client.response_callbacks.clear()
    found, sequence = Found(), Sequence(random.Random(SEED))
    first = [Asked(sequence.filled(name)) for name in sequence.filters]
    batches = [first]
    while sum(map(len, batches)) < COMMANDS + len(first):
        batches.append(sequence.batch())
    for batch in batches:
        ours = ask(endpoint, batch)
        theirs = ask(oracle, [asked for asked in batch if not asked.unlike])
        compare(batch, iter(ours), iter(theirs), found)
    said = {"commands": sum(found.sent.values()), "sent": found.sent, "differences": found.differences}
    print(json.dumps({**said, "unmet": sorted(UNLIKE.keys() - found.met.keys())}))


if __name__ == "__main__":
    main()
