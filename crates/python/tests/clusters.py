"""Starts clusters of the command `firstseen` on this machine."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

START_WITHIN_S = 120


def binary() -> str:
    path = os.environ.get("FIRSTSEEN_BINARY")
    if not path:
        pytest.skip("FIRSTSEEN_BINARY does not name the command firstseen")
    return os.path.abspath(path)


class Cluster:
    """A cluster in a folder. Its nodes have free ports."""

    def __init__(self, folder: pathlib.Path, nodes: int | None, *flags: str) -> None:
        self.folder = folder
        self.names = 0
        self.log = (folder / "up.errors").open("w")
        command = [binary(), "up", "--data", str(folder / "data"), "--json", *flags]
        command += [] if nodes is None else ["--nodes", str(nodes)]
        self.up = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.up.stdout.readline()
        assert line, (folder / "up.errors").read_text()
        described = json.loads(line)
        self.addresses = [node["address"] for node in described["nodes"]]
        self.processes = [node["process"] for node in described["nodes"]]

    @property
    def address(self) -> str:
        return ",".join(self.addresses)

    def command(self, *arguments: str, lines: list[str] | None = None) -> str:
        """Runs the command, which must succeed, and returns what it printed."""
        text = None if lines is None else "".join(f"{line}\n" for line in lines)
        done = subprocess.run([binary(), *arguments], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def create(self, *flags: str) -> str:
        """Creates a filter, and returns its name."""
        self.names += 1
        name = f"f{self.names}"
        self.command("filter", "create", name, "--cluster", self.address, *flags)
        return name

    def signal(self, node: int, number: signal.Signals) -> None:
        process = self.processes[node]
        os.kill(process, number)
        if number == signal.SIGSTOP:
            # The signal is delivered in the background, and a node that still runs could answer.
            eventually(lambda: is_stopped(process), what=f"the stop of process {process}")

    def end(self) -> None:
        for process in self.processes:
            # A process that was stopped cannot end.
            try:
                os.kill(process, signal.SIGCONT)
            except ProcessLookupError:
                pass
        self.up.send_signal(signal.SIGTERM)
        try:
            self.up.wait(60)
        except subprocess.TimeoutExpired:
            self.up.kill()
            self.up.wait()
        self.up.stdout.close()
        self.log.close()


def is_stopped(process: int) -> bool:
    """Returns whether all threads of a process are stopped."""
    states = [
        path.read_text().rpartition(")")[2].split()[0] for path in pathlib.Path(f"/proc/{process}/task").glob("*/stat")
    ]
    return all(state == "T" for state in states)


def eventually(condition, within_s: float = 30, what: str = "it"):
    """Waits until the condition holds, and returns its value."""
    deadline = time.monotonic() + within_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what} did not happen within {within_s} s"
        time.sleep(0.02)
