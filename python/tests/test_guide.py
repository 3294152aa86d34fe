"""The guides' code runs as written."""

import contextlib
import io
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
EXPECTED = {
    "guide/python.md": "Rio",
    "guide/engines.md": "Rio",
    "guide/arrays.md": "(366, 45, 90)",
    "start/data.md": "19.75",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_guide(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)
    assert blocks
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n".join(blocks), name, "exec"), {"__name__": "guide"})
    assert EXPECTED[name] in printed.getvalue()
