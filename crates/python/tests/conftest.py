"""Settings of the tests. `FIRSTSEEN_BINARY` names the command `firstseen` for the tests that need it."""

import os
import pathlib
import subprocess

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("ci")


@pytest.fixture
def dedup(tmp_path: pathlib.Path):
    """Returns a function that runs `firstseen dedup` with some input lines, and returns the lines that it passed on."""
    binary = os.environ.get("FIRSTSEEN_BINARY")
    if not binary:
        pytest.skip("FIRSTSEEN_BINARY does not name the command firstseen")

    def run(flags: list[str], lines: list[str]) -> list[str]:
        text = "".join(f"{line}\n" for line in lines)
        done = subprocess.run(
            [binary, "dedup", *flags], input=text, capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run
