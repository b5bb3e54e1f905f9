"""Filters of a cluster, with asyncio."""

import asyncio
import collections
import signal
import subprocess
import sys
import time

import pytest
from clusters import eventually

import firstseen
from firstseen import Verdict

COUNTED = ["--window", "unbounded", "--capacity", "100k", "--fpr", "1e-9"]
CLAIMED = [*COUNTED, "--claims", "60s"]
EVENTS = 500
#: Each event has two tasks that compete for it.
TASKS = 2 * EVENTS
KILLED_AFTER = EVENTS // 4
ENDS_WITHIN_S = 60


def test_the_methods_do_what_those_without_asyncio_do(cluster):
    name = cluster.create(*CLAIMED)

    async def work():
        async with firstseen.aio.connect(cluster.address, name) as seen:
            assert await seen.observe_batch(["a", "b", "a"]) is not None
            assert (await seen.test_batch(["a", "c"])).tolist() == [False, True]
            assert (await seen.verdicts(["c", None])).tolist() == [Verdict.FIRST_SEEN, Verdict.NO_KEY]
            assert await seen.add("d") is True and await seen.observe("d") is Verdict.DUPLICATE
            assert await seen.test("e") is Verdict.FIRST_SEEN and await seen.contains("d")
            with pytest.raises(firstseen.UndecidedError, match="its key is missing"):
                await seen.add(None)
            with pytest.raises(TypeError, match="a batch is a list of keys"):
                await seen.observe_batch("abc")
            assert seen.info()["lease_max"] == 60.0

            async with seen.claim("order-1", lease=30) as claim:
                assert claim and not await seen.claim("order-1", lease=30)
                assert await claim.confirm() is True
            async with seen.claim("order-2", lease=30) as claim:
                assert claim
            again = await seen.claim("order-2", lease=30)
            assert again and await again.release() is True
            claims = await seen.claim_batch(["x", "y"], lease=30)
            assert (await seen.confirm_batch(claims[:1])).tolist() == [Verdict.FIRST_SEEN]
            assert await seen.release_batch(claims) == [False, True]
            [claim] = await seen.claim_batch(["z"], lease=30)
            claim.deliver()
            assert await seen.release_fences(["y"], fences=[claim.fence]) == [False]
            assert (await seen.confirm_fences(["z"], fences=[claim.fence])).tolist() == [Verdict.FIRST_SEEN]
        with pytest.raises(firstseen.ClusterError, match="closed"):
            await seen.add("f")
        with pytest.raises(firstseen.ClusterError, match="no filter"):
            await firstseen.aio.connect(cluster.address, "none")

    asyncio.run(work())
    with firstseen.connect(cluster.address, name) as seen:
        assert not seen.observe_batch(["a", "b", "c", "d", "order-1", "x", "z"]).any()


class Deliveries:
    """What the tasks of the test with a killed node were told."""

    def __init__(self):
        self.delivered = collections.Counter()
        #: Number of confirmations of each event that were undecided, or came after the lease.
        self.unclear = collections.Counter()
        #: Number of tasks that were told that another one had delivered the event.
        self.duplicates = collections.Counter()
        #: Number of tasks whose time was over while no claim of theirs had a clear answer.
        self.gave_up = collections.Counter()
        self.confirmed = collections.Counter()

    @property
    def confirmations(self):
        return self.confirmed.total()

    async def deliver(self, seen, event):
        """Claims, delivers and confirms an event, until somebody has delivered it or the time is over."""
        deadline = time.monotonic() + ENDS_WITHIN_S
        while True:
            async with seen.claim(event, lease=5) as claim:
                if claim:
                    self.delivered[event] += 1
                    return await self.confirm(claim, event)
            if claim.verdict is Verdict.DUPLICATE:
                self.duplicates[event] += 1
                return
            if time.monotonic() > deadline:
                self.gave_up[event] += 1
                return
            await asyncio.sleep(0.05)

    async def confirm(self, claim, event):
        try:
            is_recorded = await claim.confirm()
        except (firstseen.UndecidedError, firstseen.LeaseLostError):
            self.unclear[event] += 1
        else:
            self.confirmed[event] += is_recorded

    def wrong(self, event):
        """Returns what is wrong with the deliveries of an event, if anything."""
        delivered, unclear = self.delivered[event], self.unclear[event]
        if delivered == 0 and self.gave_up[event] < TASKS // EVENTS:
            return "a task was told that the event was delivered, which no task has done"
        if delivered > 1 + unclear:
            return f"{delivered} deliveries, although only {unclear} confirmations were unclear"
        if self.confirmed[event] > 1:
            return f"{self.confirmed[event]} confirmations recorded the event"
        return None


def test_a_thousand_tasks_deliver_each_event_once_while_a_node_is_killed(own_cluster):
    """Two tasks compete for each event. A node is killed when a quarter of the events is confirmed.

    An event is delivered at least once, unless all claims of its tasks were undecided. It is delivered again at most as
    often as a confirmation was undecided or came after the lease, which its task was told. So all other events are
    delivered exactly once, although the killed node has lost its claims.
    """
    cluster = own_cluster(3)
    name = cluster.create(*COUNTED, "--claims", "5s", "--copies", "1")
    told = Deliveries()

    async def kill():
        while told.confirmations < KILLED_AFTER:
            await asyncio.sleep(0.001)
        cluster.signal(2, signal.SIGKILL)
        return told.confirmations

    async def work():
        async with firstseen.aio.connect(cluster.address, name, calls_in_flight_max=50) as seen:
            killed = asyncio.create_task(kill())
            events = [f"order-{task % EVENTS}" for task in range(TASKS)]
            await asyncio.gather(*(told.deliver(seen, event) for event in events))
            return await killed

    confirmed_before = asyncio.run(work())
    assert confirmed_before < EVENTS, "the node was killed after the work"
    wrong = {f"order-{number}": told.wrong(f"order-{number}") for number in range(EVENTS)}
    wrong = {event: reason for event, reason in wrong.items() if reason}
    assert not wrong, wrong
    # The other two nodes go on, so most events have a clear end.
    assert len(told.unclear | told.gave_up) < EVENTS // 2
    assert told.confirmations > confirmed_before


async def soon(condition, what):
    """Waits until the condition holds, and lets the event loop run."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        await asyncio.sleep(0.02)


def test_a_claim_that_was_granted_to_a_cancelled_task_is_released(cluster):
    """The leases last for a minute, so the events are free within 20 seconds only because they were released."""
    name = cluster.create(*CLAIMED)
    keys = [f"order-{number}" for number in range(20)]

    async def work(seen, other):
        tasks = [asyncio.create_task(seen.claim_batch([key], lease=60)) for key in keys]
        await asyncio.sleep(0)
        # The event loop does not run until the cluster has granted the claims, so no task has its answer yet.
        eventually(lambda: all(other.test(key) is Verdict.CLAIMED for key in keys), what="the grants")
        for task in tasks:
            assert task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        await soon(lambda: all(other.test(key) is Verdict.FIRST_SEEN for key in keys), "the releases")

        async def consume():
            async with seen.claim("held", lease=60) as claim:
                held.set_result(bool(claim))
                await asyncio.Event().wait()

        held = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(consume())
        assert await held and other.test("held") is Verdict.CLAIMED
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await soon(lambda: other.test("held") is Verdict.FIRST_SEEN, "the release")

    async def run():
        async with firstseen.aio.connect(cluster.address, name) as seen:
            with firstseen.connect(cluster.address, name) as other:
                await work(seen, other)

    asyncio.run(run())


@pytest.mark.parametrize("end", ["leaves the block", "confirms"])
def test_a_claim_is_released_if_its_task_is_cancelled_before_its_call_gets_its_turn(own_cluster, end):
    """The claim counted as settled as soon as the call waited, and was kept for its lease of a minute."""
    cluster = own_cluster(1)
    name = cluster.create(*CLAIMED)

    async def consume(seen, held):
        async with seen.claim("order-1", lease=60) as claim:
            held.set_result(bool(claim))
            await leaving.wait()
            if end == "confirms":
                await claim.confirm()

    leaving = asyncio.Event()

    async def work():
        async with firstseen.aio.connect(cluster.address, name, timeout=60, calls_in_flight_max=1) as seen:
            held = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(consume(seen, held))
            assert await held
            cluster.signal(0, signal.SIGSTOP)
            blocking = asyncio.create_task(seen.add("blocking"))
            await soon(lambda: seen._session.calls_in_flight == 1, "the other call")
            leaving.set()
            # The task runs up to its call.
            for _ in range(3):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            cluster.signal(0, signal.SIGCONT)
            await blocking
            with firstseen.connect(cluster.address, name) as other:
                await soon(lambda: other.test("order-1") is Verdict.FIRST_SEEN, "the release")

    asyncio.run(work())


def test_the_calls_in_flight_are_limited_and_others_wait(own_cluster):
    """A stopped node keeps two calls in flight. A third one waits, and is never sent if its task is cancelled."""
    cluster = own_cluster(1)
    name = cluster.create(*COUNTED)

    async def work():
        async with firstseen.aio.connect(cluster.address, name, timeout=60, calls_in_flight_max=2) as seen:
            assert await seen.add("first")
            cluster.signal(0, signal.SIGSTOP)
            sent = [asyncio.create_task(seen.add(key)) for key in ("a", "b")]
            waiting = [asyncio.create_task(seen.add(key)) for key in ("cancelled", "c")]
            await soon(lambda: seen._session.calls_in_flight == 2, "the first two calls")
            assert not any(task.done() for task in [*sent, *waiting])
            waiting[0].cancel()
            sent[1].cancel()
            await asyncio.wait([waiting[0], sent[1]])
            cluster.signal(0, signal.SIGCONT)
            assert await sent[0] and await waiting[1]
            # The call of `b` was sent before its task was cancelled.
            assert (await seen.test_batch(["a", "b", "c", "cancelled"])).tolist() == [False, False, False, True]

    asyncio.run(work())


ENDING = """
import asyncio, firstseen, sys

async def work():
    seen = await firstseen.aio.connect(sys.argv[1], sys.argv[2])
    for number in range(200):
        asyncio.ensure_future(seen.add(f"{sys.argv[3]}-{number}"))
    await asyncio.sleep(0)

loop = asyncio.new_event_loop()
loop.run_until_complete(work())
"""


def test_programs_end_well_with_calls_in_flight(cluster_of_1):
    """Answers arrive while the interpreter ends."""
    name = cluster_of_1.create(*COUNTED)
    for run in range(10):
        command = [sys.executable, "-W", "ignore", "-c", ENDING, cluster_of_1.address, name, str(run)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended


def test_a_loop_that_ends_with_calls_in_flight(own_cluster):
    cluster = own_cluster(1)
    name = cluster.create(*CLAIMED)
    seen = []

    async def work():
        seen.append(await firstseen.aio.connect(cluster.address, name, timeout=60))
        assert await seen[0].add("first")
        cluster.signal(0, signal.SIGSTOP)
        claim = asyncio.ensure_future(seen[0]._session.claim((["order-1"],), None, 60.0, asyncio.get_running_loop()))
        await soon(lambda: seen[0]._session.calls_in_flight == 1, "the call")
        assert not claim.done()

    asyncio.run(work())
    cluster.signal(0, signal.SIGCONT)
    with firstseen.connect(cluster.address, name) as other:
        eventually(lambda: other.claim("order-1", lease=60), 20, "the release")
        assert asyncio.run(seen[0].add("second"))
        assert asyncio.run(seen[0].close())
