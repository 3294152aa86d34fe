"""The guide's code for Ray, Spark and Awkward Array runs as written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs/guide/engines.md"


@pytest.mark.parametrize("engine, printed", [("ray", "19.75"), ("spark", "19.75"), ("awkward", "[31.5, None, 48.2]")])
def test_the_guide(tmp_path, engine, printed):
    text = GUIDE.read_text()
    [setup] = re.findall(r"```python\n(import benthic\n.*?)```", text, re.DOTALL)
    blocks = re.findall(rf"```python {engine}\n(.*?)```", text, re.DOTALL)
    assert blocks
    # By default, both engines shuffle even four rows over 200 partitions.
    environment = {
        "PYSPARK_SUBMIT_ARGS": "--conf spark.sql.shuffle.partitions=2 --conf spark.ui.enabled=false pyspark-shell",
        "PYSPARK_PYTHON": sys.executable,
        "RAY_AUTH_MODE": "disabled",
        "RAY_DATA_DEFAULT_MIN_PARALLELISM": "2",
        "RAY_USAGE_STATS_ENABLED": "0",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", "\n".join([setup, *blocks])],
        cwd=tmp_path,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
