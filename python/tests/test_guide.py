"""The guides' code runs as written."""

import contextlib
import io
import re
from pathlib import Path

import pytest

GUIDES = Path(__file__).parents[2] / "docs/guide"


@pytest.mark.parametrize("name", ["python.md", "engines.md", "arrays.md"])
def test_the_guide(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (GUIDES / name).read_text(), re.DOTALL)
    assert len(blocks) > 3
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n".join(blocks), name, "exec"), {"__name__": "guide"})
    expected = {"python.md": "Rio", "engines.md": "Rio", "arrays.md": "(366, 45, 90)"}
    assert expected[name] in printed.getvalue()
