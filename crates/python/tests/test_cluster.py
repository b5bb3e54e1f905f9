"""Filters of a cluster, without asyncio."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
import time

import numpy
import polars
import pyarrow
import pytest
from clusters import eventually

import firstseen
from firstseen import ClusterFilter, Filter, Verdict

COUNTED = ["--window", "unbounded", "--capacity", "100k", "--fpr", "1e-9"]
TIMED = ["--window", "1h", "--capacity", "100k", "--fpr", "1e-9", "--lateness", "1m"]
CLAIMED = [*COUNTED, "--claims", "60s"]
START_S = 1_764_500_000


def test_verdicts_are_those_of_dedup(cluster):
    """Two equal filters get the same keys, one from the command and one from Python. Then they change places."""
    keys = [f"k{number * number % 700}" for number in range(1000)]
    by_command, by_python = cluster.create(*COUNTED), cluster.create(*COUNTED)
    flags = ["dedup", "--cluster", cluster.address, "--format", "lines"]
    passed = cluster.command(*flags, "--filter", by_command, lines=keys).splitlines()
    with firstseen.connect(cluster.address, by_python) as seen:
        new = seen.observe_batch(keys)
        assert [key for key, is_new in zip(keys, new, strict=True) if is_new] == passed == list(dict.fromkeys(keys))
    with firstseen.connect(cluster.addresses[-1:], by_command) as seen:
        assert not seen.observe_batch([*keys, keys[0].encode()]).any()
        assert seen.add("another")
    assert cluster.command(*flags, "--filter", by_python, lines=[*keys, "more"]).splitlines() == ["more"]
    assert cluster.command(*flags, "--filter", by_command, lines=["another"]) == ""


def test_keys_of_several_fields_and_times_are_those_of_dedup(cluster):
    name = cluster.create(*TIMED)
    rows = ["user,ad,time", f"u1,a,{START_S}", f"u1,b,{START_S + 1}", f"u1,a,{START_S + 2}"]
    flags = ["dedup", "--cluster", cluster.address, "--filter", name, "--format", "csv", "--key", "user,ad"]
    assert cluster.command(*flags, "--time", "time", lines=rows).splitlines() == rows[:3]
    with firstseen.connect(cluster.address, name) as seen:
        columns = polars.Series(["u1", "u1", "u2"]), polars.Series(["a", "b", "a"])
        assert seen.observe_batch(*columns, at=START_S + 3.0).tolist() == [False, False, True]
        assert seen.observe(("u2", "a"), at=START_S + 3590.0) is Verdict.DUPLICATE
        # The window of an hour ends with a step of the filter, which is an eighth of the window at most.
        assert seen.observe(("u1", "a"), at=START_S + 1.25 * 3600) is Verdict.FIRST_SEEN
        assert seen.observe("x", at=START_S - 9000.0) is Verdict.LATE
        assert seen.info()["needs_times"]


BATCHES = {
    "list": ["a", b"b", 3, "a", None, ""],
    "tuples": [("a", 1), ("a", "1"), ("a", None), ("a",), "a"],
    "numpy": numpy.array([1, 2, 1]),
    "arrow": pyarrow.array(["a", None, "b", "a"]),
    "dictionary": polars.Series(["a", "b", "a"], dtype=polars.Categorical),
}


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_a_cluster_answers_as_a_filter_of_the_process(cluster_of_3, batch):
    local = Filter(capacity=10_000, fpr=1e-9, seed=7)
    with firstseen.connect(cluster_of_3.address, cluster_of_3.create(*COUNTED)) as seen:
        for unjudged in ["pass", "drop"]:
            found, expected = (each.test_batch(batch, unjudged=unjudged) for each in (seen, local))
            assert (found.tolist(), found.dtype) == (expected.tolist(), expected.dtype)
        for _ in range(2):
            found, expected = seen.verdicts(batch), local.verdicts(batch)
            assert (found.tolist(), found.dtype) == (expected.tolist(), expected.dtype)


def test_single_events(cluster):
    with firstseen.connect(cluster.address, cluster.create(*COUNTED)) as seen:
        assert seen.test("a") is Verdict.FIRST_SEEN and "a" not in seen
        assert seen.add("a") is True and seen.add("a") is False and "a" in seen
        assert seen.observe(b"a") is Verdict.DUPLICATE
        assert seen.observe(None) is Verdict.NO_KEY
        assert seen.observe_batch([]).tolist() == []
        with pytest.raises(firstseen.UndecidedError, match="its key is missing") as raised:
            seen.add(None)
        assert raised.value.verdicts == [Verdict.NO_KEY]
        with pytest.raises(firstseen.UndecidedError, match="event 1 cannot be judged"):
            seen.observe_batch(["b", None], unjudged="fail")
        with pytest.raises(TypeError, match="a batch is a list of keys"):
            seen.observe_batch("abc")
        with pytest.raises(ValueError, match="there are 1 times for 2 events"):
            seen.observe_batch(["x", "y"], at=[1.0])
        frame = pyarrow.table({"id": ["a", "b", "c", "c"]})
        assert [batch["id"].to_pylist() for batch in firstseen.dedup([frame], on="id", filter=seen)] == [["c"]]


def test_errors_say_what_to_do(cluster_of_1, tmp_path):
    with pytest.raises(firstseen.ClusterError, match="no filter `none` in the cluster"):
        firstseen.connect(cluster_of_1.address, "none")
    with pytest.raises(firstseen.ClusterError, match="no node answered within"):
        firstseen.connect("127.0.0.1:1", "clicks", timeout=0.3)
    with pytest.raises(firstseen.ClusterError, match="token_file: cannot read the token in .*none"):
        firstseen.connect(cluster_of_1.address, "clicks", token_file=tmp_path / "none")
    with pytest.raises(firstseen.ClusterError, match="tls_ca, tls_cert and tls_key"):
        firstseen.connect(cluster_of_1.address, "clicks", tls_cert="cert.pem")
    seen = firstseen.connect(cluster_of_1.address, cluster_of_1.create(*COUNTED))
    with pytest.raises(firstseen.ClusterError, match="cannot be claimed: create one with --claims"):
        seen.claim("a", lease=1)
    assert seen.close() is True
    with pytest.raises(firstseen.ClusterError, match="the connection is closed"):
        seen.add("a")
    assert seen.close() is True


WRONG = {
    "no address": (ValueError, "addresses", [""], {}),
    "no addresses": (ValueError, "addresses", [[]], {}),
    "an address that is no text": (TypeError, "addresses", [[1]], {}),
    "no filter": (ValueError, "filter", [], {"filter": ""}),
    "a filter that is no text": (TypeError, "filter", [], {"filter": 1}),
    "no time": (ValueError, "timeout", [], {"timeout": 0}),
    "less than no time": (ValueError, "timeout", [], {"timeout": -1}),
    "a time that is no number": (ValueError, "timeout", [], {"timeout": float("nan")}),
    "no calls": (ValueError, "calls_in_flight_max", [], {"calls_in_flight_max": 0}),
    "less than no calls": (ValueError, "calls_in_flight_max", [], {"calls_in_flight_max": -1}),
    "too many calls": (ValueError, "calls_in_flight_max", [], {"calls_in_flight_max": 2**64}),
    "part of a call": (TypeError, "calls_in_flight_max", [], {"calls_in_flight_max": 1.5}),
}


@pytest.mark.parametrize(("error", "name", "addresses", "arguments"), WRONG.values(), ids=WRONG)
def test_errors_name_the_argument_that_is_wrong(error, name, addresses, arguments):
    """Some of them said that a number was too large for a machine word, or that an object had no attribute."""
    places = addresses or ["127.0.0.1:1"]
    with pytest.raises(error, match=f"^{name}: "):
        firstseen.connect(*places, **{"filter": "clicks", "timeout": 0.3, **arguments})

    async def connect():
        await firstseen.aio.connect(*places, **{"filter": "clicks", "timeout": 0.3, **arguments})

    with pytest.raises(error, match=f"^{name}: "):
        asyncio.run(connect())


def test_an_unknown_site_is_a_wrong_argument(own_cluster):
    cluster = own_cluster(None, "--sites", "athens,oslo")
    name = cluster.create("--window", "unbounded", "--capacity", "10k", "--tree", "dense")
    with firstseen.connect(cluster.address, name, site="oslo") as seen:
        assert seen.add("a")
    with pytest.raises(ValueError, match="^site: .*no place `rome`"):
        firstseen.connect(cluster.address, name, site="rome")


@pytest.mark.parametrize("capacity", [100_000, 3_000_000])
def test_the_capacity_is_that_of_the_whole_filter(cluster_of_3, capacity):
    """It was the capacity of one slice group."""
    name = cluster_of_3.create("--window", "unbounded", "--capacity", str(capacity), "--fpr", "1e-6")
    with firstseen.connect(cluster_of_3.address, name) as seen:
        assert capacity <= seen.info()["capacity"] < 1.2 * capacity


def test_certificates_and_tokens(own_cluster, tmp_path, monkeypatch):
    cluster = own_cluster(1, "--tls")
    certs = tmp_path / "data" / "certs"
    authority, certificate, key = (next(certs.glob(name)) for name in ("ca.pem", "*admin*.pem", "*admin*.key"))
    files = {"tls_ca": authority, "tls_cert": certificate, "tls_key": key}
    flags = [part for name, path in files.items() for part in (f"--{name.replace('_', '-')}", str(path))]
    name = cluster.create(*COUNTED, *flags)
    with firstseen.connect(cluster.address, name, **files) as seen:
        assert seen.add("a")
    with pytest.raises(firstseen.ClusterError):
        firstseen.connect(cluster.address, name, timeout=2)
    with pytest.raises(firstseen.ClusterError, match="say who connects"):
        firstseen.connect(cluster.address, name, tls_ca=authority)


def test_threads_share_the_calls_in_flight(cluster_of_3):
    with firstseen.connect(cluster_of_3.address, cluster_of_3.create(*COUNTED), calls_in_flight_max=1) as seen:
        new = []

        def work():
            new.append(int(seen.observe_batch(list(range(2_000))).sum()))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(new) == 2_000


def test_a_claim_is_confirmed_or_released(cluster):
    with firstseen.connect(cluster.address, cluster.create(*CLAIMED)) as seen:
        with seen.claim("order-1", lease=30) as claim:
            assert claim and claim.verdict is Verdict.FIRST_SEEN and 0 < claim.left < 30
            other = seen.claim("order-1", lease=30)
            assert not other and other.verdict is Verdict.CLAIMED and 0 < other.wait <= 30
            assert seen.observe("order-1") is Verdict.CLAIMED
            assert claim.confirm() is True
        again = seen.claim("order-1", lease=30)
        assert not again and again.verdict is Verdict.DUPLICATE and again.fence is None
        with pytest.raises(firstseen.LeaseLostError, match="not claimed .DUPLICATE."):
            again.confirm()
        # Confirming twice is what a client does whose first reply was lost.
        assert claim.confirm() is False

        with seen.claim("order-2", lease=30) as first:
            assert first
        with seen.claim("order-2", lease=30) as second:
            assert second and second.fence > first.fence and len(second.fence) == 24
            with pytest.raises(firstseen.LeaseLostError, match="another consumer"):
                first.confirm()
            assert second.release() is True
        with pytest.raises(ValueError, match="lease"):
            seen.claim("order-3", lease=3600)


def test_an_exception_releases_a_claim_unless_its_delivery_has_begun(cluster_of_3):
    with firstseen.connect(cluster_of_3.address, cluster_of_3.create(*CLAIMED)) as seen:
        for error in [RuntimeError, KeyboardInterrupt]:
            with pytest.raises(error), seen.claim("order-1", lease=30):
                raise error
            # After KeyboardInterrupt, the release is only queued.
            eventually(lambda: seen.claim("order-1", lease=30), what="the release")
        with pytest.raises(RuntimeError), seen.claim("order-2", lease=30) as claim:
            claim.deliver()
            raise RuntimeError
        assert seen.claim("order-2", lease=30).verdict is Verdict.CLAIMED
        assert claim.confirm() is True


def test_a_call_that_is_refused_leaves_all_claims_as_they_were(cluster_of_3):
    """The claims before the wrong one counted as settled, and were kept until their leases ended."""
    name = cluster_of_3.create(*CLAIMED)
    with firstseen.connect(cluster_of_3.address, name) as seen, firstseen.connect(cluster_of_3.address, name) as other:
        lost = other.claim("lost", lease=30)
        refused = seen.claim("lost", lease=30)
        for settle in [seen.confirm_batch, seen.release_batch]:
            with seen.claim("order-1", lease=30) as claim:
                with pytest.raises(firstseen.LeaseLostError, match="not claimed"):
                    settle([claim, refused])
                with pytest.raises(ValueError, match="another connection"):
                    settle([claim, lost])
            assert seen.test("order-1") is Verdict.FIRST_SEEN
        closed = firstseen.connect(cluster_of_3.address, name)
        with closed.claim("order-2", lease=30) as claim:
            closed._session.close(0.0)
            with pytest.raises(firstseen.ClusterError, match="closed"):
                claim.confirm()
            assert claim._grant.is_held
        assert not claim._grant.is_held


def test_a_claim_that_is_dropped_is_released(cluster_of_3):
    name = cluster_of_3.create(*CLAIMED)
    with firstseen.connect(cluster_of_3.address, name) as seen:
        claims = seen.claim_batch(["a", "b", None, "a"], lease=30)
        assert [bool(claim) for claim in claims] == [True, True, False, False]
        assert [claim.verdict for claim in claims[2:]] == [Verdict.NO_KEY, Verdict.CLAIMED]
        del claims
        seen.claim("c", lease=30)
    # Closing has sent the releases.
    with firstseen.connect(cluster_of_3.address, name) as seen:
        assert all(seen.claim_batch(["a", "b", "c"], lease=30))


def test_batches_of_claims_and_fences_that_outlive_a_program(cluster_of_3):
    name = cluster_of_3.create(*TIMED, "--claims", "60s")
    with firstseen.connect(cluster_of_3.address, name) as seen:
        claims = seen.claim_batch(["a", "b"], ["1", "2"], lease=30, at=START_S)
        assert all(claims)
        assert seen.confirm_batch(claims).tolist() == [Verdict.FIRST_SEEN] * 2
        assert seen.confirm_batch(claims).tolist() == [Verdict.DUPLICATE] * 2
        assert seen.release_batch(claims) == [False, False]
        assert seen.release_batch(seen.claim_batch(["c"], lease=30, at=START_S)) == [True]
        kept = seen.claim_batch([("d", 1), ("e", 1)], lease=30, at=START_S)
        fences = [claim.fence for claim in kept]
        for claim in kept:
            claim.deliver()
    with firstseen.connect(cluster_of_3.address, name) as seen:
        keys = [("d", 1), ("e", 1)]
        assert [claim.verdict for claim in seen.claim_batch(keys, lease=30, at=START_S)] == [Verdict.CLAIMED] * 2
        assert seen.confirm_fences(keys[:1], fences=fences[:1], at=START_S).tolist() == [Verdict.FIRST_SEEN]
        assert seen.release_fences(keys, fences=fences, at=START_S) == [False, True]
        with pytest.raises(ValueError, match="a fence has 24 bytes, and one of these has 3"):
            seen.confirm_fences(["d"], fences=[b"abc"], at=START_S)
        with pytest.raises(ValueError, match="2 fences for 1 events"):
            seen.confirm_fences(["d"], fences=fences, at=START_S)


def test_an_event_is_undecided_with_a_reason_while_no_node_answers(own_cluster):
    cluster = own_cluster(1)
    seen = firstseen.connect(cluster.address, cluster.create(*CLAIMED), timeout=1.0)
    # With a connection to the node, the events are sent, so that the node may record them.
    assert seen.add("first")
    cluster.signal(0, signal.SIGSTOP)
    verdict = seen.observe("a")
    assert verdict is Verdict.UNKNOWN and verdict.is_undecided and verdict.may_have_recorded
    assert "may have been recorded" in verdict.reason
    with pytest.raises(firstseen.UndecidedError, match="did not arrive in time"):
        seen.add("b")
    assert all(Verdict(number).is_undecided for number in seen.verdicts(["c", "d"]))
    assert seen.claim("e", lease=30).verdict.is_undecided
    cluster.signal(0, signal.SIGCONT)
    eventually(lambda: seen.test("f") is Verdict.FIRST_SEEN, what="an answer")
    seen.close()


def program(text, *arguments):
    command = [sys.executable, "-u", "-c", text, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


CALLS = """
import firstseen, os, sys, threading, time
seen = firstseen.connect(sys.argv[1], sys.argv[2], timeout=120)
print("connected")
sys.stdin.readline()

def watch(main):
    # This thread runs while the call waits, because a call that waits does not keep Python's lock.
    while sys._current_frames()[main].f_code.co_filename != firstseen._cluster.__file__:
        time.sleep(0.01)
    print("waiting")

threading.Thread(target=watch, args=[threading.get_ident()], daemon=True).start()
try:
    {call}
except KeyboardInterrupt:
    print("interrupted")
    os._exit(0)
print("not interrupted")
"""


@pytest.mark.parametrize("call", ["seen.observe('a')", "seen.observe_batch(['a'])", "seen.claim('a', lease=30)"])
def test_ctrl_c_ends_a_call_that_waits(own_cluster, call):
    cluster = own_cluster(1)
    command = [sys.executable, "-u", "-c", CALLS.format(call=call), cluster.address, cluster.create(*CLAIMED)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "connected\n"
        cluster.signal(0, signal.SIGSTOP)
        run.stdin.write("go\n")
        run.stdin.flush()
        assert run.stdout.readline() == "waiting\n"
        began = time.monotonic()
        run.send_signal(signal.SIGINT)
        assert run.stdout.readline() == "interrupted\n"
        # Without the signal, the call would wait for 120 seconds.
        assert time.monotonic() - began < 60
        run.wait(60)


def test_closing_does_not_wait_for_its_turn(own_cluster):
    """A call that waited for a node kept `close` waiting, however short its time was."""
    cluster = own_cluster(1)
    seen = firstseen.connect(cluster.address, cluster.create(*COUNTED), timeout=120, calls_in_flight_max=1)
    assert seen.add("first")
    cluster.signal(0, signal.SIGSTOP)

    def call() -> None:
        # The call may find the connection closed.
        with contextlib.suppress(firstseen.ClusterError):
            seen.observe("a")

    waiting = threading.Thread(target=call)
    waiting.start()
    eventually(lambda: seen._session.calls_in_flight == 1, what="the call")
    began = time.monotonic()
    seen.close(within=0.1)
    # The call waits for the node for 120 seconds.
    assert time.monotonic() - began < 60
    cluster.signal(0, signal.SIGCONT)
    waiting.join(60)
    assert not waiting.is_alive()


REGISTERING = """
import atexit, firstseen, sys, threading

def connect():
    try:
        firstseen.connect("127.0.0.1:1", "clicks", timeout=0.1)
    except firstseen.ClusterError:
        print("refused\\n", end="")

def register(function, *arguments):
    # Python runs other threads while it runs this function, as it may at any call of Python code.
    if threads:
        threads.pop().start()
        started.wait()
    return original(function, *arguments)

class Connecting(threading.Thread):
    def run(self):
        started.set()
        connect()

started = threading.Event()
threads = [Connecting()]
other = threads[0]
original, atexit.register = atexit.register, register
sys.setswitchinterval(1e-6)
connect()
other.join()
"""


def test_two_threads_connect_first_at_the_same_time():
    """One held a lock of the package and waited for Python's lock, and the other one held Python's lock."""
    for _ in range(3):
        with program(REGISTERING) as run:
            try:
                out, errors = run.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                run.kill()
                raise
            assert out == "refused\n" * 2, errors


FORK = """
import firstseen, os, sys
seen = firstseen.connect(sys.argv[1], sys.argv[2])
claim = seen.claim("held", lease=30)
assert seen.add("a")
child = os.fork()
if child == 0:
    for call in (lambda: seen.add("b"), lambda: seen.close(), lambda: claim.confirm()):
        try:
            call()
            os._exit(1)
        except firstseen.ClusterError as error:
            if "call firstseen.connect again after a fork" not in str(error):
                os._exit(2)
    with firstseen.connect(sys.argv[1], sys.argv[2]) as own:
        is_well = own.add("b") and not own.add("a") and not own.claim("held", lease=30)
    del seen, claim
    sys.exit(0 if is_well else 3)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert seen.add("c") and not seen.add("b") and claim.confirm()
print("well")
"""


def test_a_forked_process_connects_again(cluster_of_1):
    run = program(FORK, cluster_of_1.address, cluster_of_1.create(*CLAIMED))
    out, errors = run.communicate(timeout=60)
    assert out == "well\n", errors


def test_the_class_is_documented_and_not_pickled(cluster_of_1):
    import pickle

    with firstseen.connect(cluster_of_1.address, cluster_of_1.create(*COUNTED)) as seen:
        assert isinstance(seen, ClusterFilter)
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(seen)
