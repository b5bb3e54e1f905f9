"""Producers that submit events with pipelines of redis-py while nodes are killed. The arguments are PORT SEED.

The program prints a line for each call: PRODUCER EVENT lookup|event NUMBER BEGAN_US RETURNED_US VERDICT. A call without an
idempotency key, or without an answer, has `-` in that field. The program also prints a line `cut` for each pipeline without
replies. A line on standard input ends the program. It then sends open events again until all of them have a verdict, and
finally sends all events once more.
"""

import random
import sys
import threading
import time

import redis

PORT, SEED = int(sys.argv[1]), int(sys.argv[2])
PRODUCERS, ITEMS, GROUPS = 3, 10, 25
PATIENCE_S = 180
# Numbers of events that no command with an idempotency key has: events of plain keys, and events that only one producer submits.
KEYS, OWN, NEVER = 1 << 42, 1 << 40, 1 << 41

over, printing = threading.Event(), threading.Lock()


def verdict(reply, new, seen):
    """Returns the verdict in a reply, which is `new` or `seen`. For an error, returns the word for its reason."""
    if isinstance(reply, redis.exceptions.ResponseError):
        words = str(reply).split()
        assert words[0] == "UNDECIDED", reply
        return words[1].rstrip(":")
    assert any(type(reply) is type(one) and reply == one for one in (new, seen)), (reply, new, seen)
    return 1 if reply == new else 0


def codes(reply, count):
    if isinstance(reply, redis.exceptions.ResponseError):
        return [verdict(reply, 1, 0)] * count
    assert isinstance(reply, list) and len(reply) == count, reply
    assert all(type(code) is int and -17 <= code <= 1 for code in reply), reply
    return reply


class Producer(threading.Thread):
    def __init__(self, number):
        super().__init__()
        self.number, self.dice, self.failure = number, random.Random(SEED + number), None
        protocol = 2 + number % 2
        self.booleans = (False, True) if protocol == 3 else (0, 1)
        self.client = redis.Redis(port=PORT, protocol=protocol, socket_timeout=PATIENCE_S)
        self.commands, self.tokens, self.open = 0, 0, set()

    def run(self):
        try:
            self.work()
        except BaseException as error:
            self.failure = error
            raise

    def work(self):
        while not over.is_set():
            batch = sorted(self.open)[:GROUPS]
            while len(batch) < GROUPS:
                batch.append(self.commands)
                self.open.add(self.commands)
                self.commands += 1
            self.submit(batch + [self.dice.randrange(self.commands)])
        deadline = time.monotonic() + PATIENCE_S
        while self.open:
            assert time.monotonic() < deadline, f"no verdict on {len(self.open)} commands"
            self.submit(sorted(self.open)[:GROUPS])
        for first in range(0, self.commands, GROUPS):
            self.submit(range(first, min(first + GROUPS, self.commands)))

    def connected(self):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.client.ping()
            except redis.exceptions.ConnectionError:
                assert time.monotonic() < deadline, "no endpoint"
                time.sleep(0.02)

    def submit(self, batch):
        self.connected()
        # By default redis-py sends a pipeline as a transaction.
        pipe = self.client.pipeline(transaction=self.dice.random() < 0.3)
        groups = [self.begin(pipe, command) for command in batch]
        began = time.monotonic_ns() // 1000
        try:
            replies = pipe.execute(raise_on_error=False)
        except redis.exceptions.ConnectionError:
            self.tell([line for group in groups for line in self.unanswered(group)], began, "-")
            with printing:
                print("cut", flush=True)
            return
        assert len(replies) == 6 * len(groups), len(replies)
        lines = []
        for place, group in enumerate(groups):
            lines += self.hear(group, replies[6 * place : 6 * place + 6])
        self.tell(lines, began, time.monotonic_ns() // 1000)

    def begin(self, pipe, command):
        token = self.tokens * PRODUCERS + self.number
        self.tokens += 1
        first = command * ITEMS
        items = [f"event-{event}" for event in range(first, first + ITEMS)]
        pipe.execute_command("FS.OBSERVE", "clicks", "ID", self.number, first, "ITEMS", *items)
        pipe.echo(str(token))
        pipe.execute_command("BF.EXISTS", "clicks", items[0])
        pipe.set(f"dedup:{command}", 1, nx=True, ex=3600)
        pipe.sadd("clicks", f"own-{token}")
        pipe.execute_command("FS.TEST", "clicks", "ITEMS", f"never-{token}")
        return command, token

    def unanswered(self, group):
        command, token = group
        first = command * ITEMS
        yield from ((event, "event", event, "-") for event in range(first, first + ITEMS))
        yield from [(KEYS + command, "event", "-", "-"), (OWN + token, "event", "-", "-")]

    def hear(self, group, replies):
        command, token = group
        observed, echoed, seen, was_set, added, never = replies
        assert echoed == str(token).encode(), (echoed, token)
        first = command * ITEMS
        verdicts = codes(observed, ITEMS)
        is_seen = verdict(seen, *self.booleans)
        is_decided = verdicts[0] in (0, 1)
        assert not (is_decided and is_seen == 1), "what was just recorded is not seen"
        if all(one in (0, 1) for one in verdicts):
            self.open.discard(command)
        yield from ((first + place, "event", first + place, one) for place, one in enumerate(verdicts))
        yield first, "lookup", "-", is_seen
        yield KEYS + command, "event", "-", verdict(was_set, True, None)
        yield OWN + token, "event", "-", verdict(added, 1, 0)
        yield NEVER + token, "lookup", "-", codes(never, 1)[0]

    def tell(self, lines, began, returned):
        text = [f"{self.number} {event} {kind} {name} {began} {returned} {said}" for event, kind, name, said in lines]
        with printing:
            print("\n".join(text), flush=True)


producers = [Producer(number) for number in range(PRODUCERS)]
for producer in producers:
    producer.start()
sys.stdin.readline()
over.set()
for producer in producers:
    producer.join()
sys.exit(any(producer.failure for producer in producers))
