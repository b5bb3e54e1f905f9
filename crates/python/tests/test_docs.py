"""The examples of the package and of its pages."""

import doctest
import inspect
import pathlib
import re

import pytest

import firstseen


def documented():
    objects = {
        "firstseen": firstseen,
        "dedup": firstseen.dedup,
        "plan": firstseen.plan,
        "Verdict": firstseen.Verdict,
        "Filter": firstseen.Filter,
    }
    objects |= {
        f"Filter.{name}": getattr(firstseen.Filter, name) for name in vars(firstseen.Filter) if not name.startswith("_")
    }
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
def test_the_blocks_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^(<!-- not run: [^\n]*-->\n)?```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    run = [block for not_run, block in blocks if not not_run]
    assert run
    names = {}
    for block in run:
        exec(compile(block, page, "exec"), names)
