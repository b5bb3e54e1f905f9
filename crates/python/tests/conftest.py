"""Settings of the tests. `FIRSTSEEN_BINARY` names the command `firstseen` for the tests that need it."""

import pathlib
import subprocess

import pytest
from clusters import Cluster, binary
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("ci")


@pytest.fixture
def dedup(tmp_path: pathlib.Path):
    """Returns a function that runs `firstseen dedup` with some input lines, and returns the lines that it passed on."""
    program = binary()

    def run(flags: list[str], lines: list[str]) -> list[str]:
        text = "".join(f"{line}\n" for line in lines)
        done = subprocess.run(
            [program, "dedup", *flags], input=text, capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def _clusters(nodes):
    @pytest.fixture(scope="session", name=f"cluster_of_{nodes}")
    def cluster(tmp_path_factory):
        running = Cluster(tmp_path_factory.mktemp(f"cluster_of_{nodes}"), nodes)
        yield running
        running.end()

    return cluster


#: Clusters that no test harms.
cluster_of_1 = _clusters(1)
cluster_of_3 = _clusters(3)


@pytest.fixture(params=[1, 3], ids=["one node", "three nodes"])
def cluster(request):
    """A cluster that the test must not harm."""
    return request.getfixturevalue(f"cluster_of_{request.param}")


@pytest.fixture
def own_cluster(tmp_path):
    """Returns a function that starts a cluster of this test alone. The number of nodes is `None` if flags name it."""
    started = []

    def start(nodes: int | None, *flags: str) -> Cluster:
        started.append(Cluster(tmp_path, nodes, *flags))
        return started[-1]

    yield start
    for running in started:
        running.end()
