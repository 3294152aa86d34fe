"""The package itself: types, documentation, and dependencies."""

import importlib.resources
import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import benthic

ROOT = Path(__file__).parents[2]


def test_the_surface_is_typed():
    package = importlib.resources.files("benthic")
    assert (package / "py.typed").is_file()
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", ROOT / "target/mypy"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def reference(package, out):
    """Writes the pages of the site's reference."""
    script = ROOT / "docs/site/python_api.py"
    return subprocess.run([sys.executable, script, package, out], capture_output=True, text=True)


def test_everything_is_documented(tmp_path):
    done = reference(ROOT / "python", tmp_path / "pages")
    assert done.returncode == 0, done.stderr
    pages = "".join(page.read_text() for page in (tmp_path / "pages").iterdir())
    for name in benthic.__all__:
        assert f"\n## {name}\n" in pages or name in ("__version__", "errors"), name

    shutil.copytree(ROOT / "python/benthic", tmp_path / "python/benthic")
    pool = tmp_path / "python/benthic/pool.py"
    text = pool.read_text()
    docstring = '''        """Whether the object exists."""\n'''
    assert docstring in text
    pool.write_text(text.replace(docstring, ""))
    assert "benthic.pool.Pool.exists" in reference(tmp_path / "python", tmp_path / "others").stderr


def test_names_load_at_their_first_use():
    script = """
import sys
import benthic
assert not {"benthic._native", "pyarrow"} & set(sys.modules)
assert dir(benthic) == sorted(benthic.__all__)
assert benthic.connect.__module__ == "benthic.store"
assert {"benthic._native", "pyarrow"} <= set(sys.modules)
with benthic.connect("mem:") as store:
    store.create_pool("p")
    store.create_table("p/t", {"x": [1]}).scan().to_arrow()
assert not {"dask", "polars", "pyspark", "ray"} & set(sys.modules)
try:
    benthic.nothing
except AttributeError as error:
    assert "nothing" in str(error)
else:
    raise AssertionError("a missing name was found")
"""
    subprocess.run([sys.executable, "-P", "-c", script], check=True)


def test_the_stubs_cover_the_module():
    from benthic import _native

    stub = (ROOT / "python/benthic/_native.pyi").read_text()
    for name, member in vars(_native).items():
        if name.startswith("__"):
            continue
        assert f"class {name}:" in stub or f"def {name}(" in stub or f"{name}: " in stub, name
        if inspect.isclass(member):
            for method in vars(member):
                assert method.startswith("__") or f"def {method}(" in stub, f"{name}.{method}"


def features(edges, *selection):
    tree = ["cargo", "tree", *selection, "--edges", edges, "--format", "{p} {f}", "--prefix", "none", "--locked"]
    lines = subprocess.run(tree, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.removesuffix(" (*)").strip() for line in lines}


def test_the_package_has_only_features_of_the_workspace():
    """`pip install` builds one package of the workspace. With other features than the workspace,
    the query engine would be compiled twice.

    Only benthic-program may differ: it has no command line here, and the query engine does not
    depend on it.
    """
    alone = features("normal", "--package", "benthic-python")
    # cargo also counts the features of the tests' dependencies.
    everything = features("normal,dev", "--workspace", "--features", "benthic-s3/gateway")
    assert len(alone) > 100
    alone = {line for line in alone if not line.startswith("benthic-program ")}
    assert alone <= everything, "ask for the missing features in python/Cargo.toml"
