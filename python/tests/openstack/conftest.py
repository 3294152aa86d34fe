"""The tests of the OpenStack drivers: `make test-openstack` installs their requirements and runs them."""

import atexit
import importlib.util
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
collect_ignore_glob = []

if importlib.util.find_spec("cinder") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    # The package is not installed here, because its native half is not needed. So Python finds the
    # entry points that the package will have in the same form, in a directory of their own.
    metadata = Path(tempfile.mkdtemp(prefix="benthic-entry-points-"))
    atexit.register(shutil.rmtree, metadata, ignore_errors=True)
    project = tomllib.loads((HERE.parents[2] / "pyproject.toml").read_text())["project"]
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in entries.items())]
    distribution = metadata / "benthic-0.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: benthic\nVersion: 0\n")
    (distribution / "entry_points.txt").write_text("\n".join(lines) + "\n")
    sys.path[:0] = [str(metadata), str(HERE)]
