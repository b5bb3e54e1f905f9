"""The examples of the package and of its pages."""

import doctest
import inspect
import os
import pathlib
import re

import pytest

import firstseen


def documented():
    objects = {
        "firstseen": firstseen,
        "dedup": firstseen.dedup,
        "plan": firstseen.plan,
        "connect": firstseen.connect,
        "aio": firstseen.aio,
        "aio.connect": firstseen.aio.connect,
    }
    kinds = [firstseen.Filter, firstseen.ClusterFilter, firstseen.Claim, firstseen.Verdict]
    for kind in [*kinds, firstseen.aio.ClusterFilter, firstseen.aio.Claim]:
        place = f"{kind.__module__}.{kind.__name__}"
        objects[place] = kind
        members = {name: getattr(kind, name) for name in vars(kind) if not name.startswith("_")}
        objects |= {f"{place}.{name}": member for name, member in members.items() if not name.isupper()}
    return objects


@pytest.mark.parametrize("name", documented())
def test_everything_is_documented_and_examples_are_right(name):
    text = inspect.getdoc(documented()[name])
    assert text, f"{name} has no documentation"
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    failed, _ = doctest.DocTestRunner(verbose=False).run(test)
    assert failed == 0


ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = ["docs/how-to/python.md", "crates/python/README.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch, request):
    """Blocks that need a cluster run if FIRSTSEEN_BINARY names the command, with the filters that the page creates."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^(<!-- not run: [^\n]*-->\n)?```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    run = [block for not_run, block in blocks if not not_run]
    assert run
    if "127.0.0.1" in text and os.environ.get("FIRSTSEEN_BINARY"):
        cluster = request.getfixturevalue("cluster_of_3")
        for flags in re.findall(r"^firstseen (filter create .*)$", text, re.MULTILINE):
            cluster.command(*flags.replace("127.0.0.1:PORT", cluster.address).split())
        addresses = dict(zip(["127.0.0.1:7001", "127.0.0.1:7002"], cluster.addresses, strict=False))
        run = [re.sub(r"127\.0\.0\.1:\d+", lambda found: addresses[found[0]], block) for block in run]
    else:
        run = [block for block in run if "shared" not in block]
    names = {}
    for block in run:
        exec(compile(block, page, "exec"), names)
