"""PyActiveStorage reduces netCDF files in a pool through `benthic array serve`, unchanged.

It reads the metadata of a file from S3 or a web server, so a small server has the same files. The results must be those that it
computes itself from the local file.
"""

import contextlib
import email.utils
import http.server
import json
import os
import pathlib
import re
import subprocess
import threading
import urllib.parse

import netCDF4
import numpy as np
import pytest
from activestorage import reductionist
from activestorage.active import Active

ROOT = pathlib.Path(__file__).resolve().parents[4]
PROGRAMS = ROOT / "target" / "release"


class Files(http.server.BaseHTTPRequestHandler):
    """Shows a directory to readers of S3 and HTTP: /BUCKET/NAME."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        name = urllib.parse.unquote(urllib.parse.urlparse(self.path).path).removeprefix("/files/")
        data = (self.server.dir / name).read_bytes()
        wanted = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        self.send_response(206 if wanted else 200)
        if wanted:
            start, end = int(wanted[1]), min(int(wanted[2] or len(data)), len(data) - 1)
            self.send_header("content-range", f"bytes {start}-{end}/{len(data)}")
            data = data[start : end + 1]
        self.send_header("content-length", str(len(data)))
        self.send_header("accept-ranges", "bytes")
        self.send_header("etag", '"1"')
        self.send_header("last-modified", email.utils.formatdate(0, usegmt=True))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def write_files(dir):
    random = np.random.default_rng(1)
    with netCDF4.Dataset(dir / "a.nc", "w") as file:
        for name, len in [("time", 10), ("lat", 9), ("lon", 14)]:
            file.createDimension(name, len)
        values = random.normal(280, 10, (10, 9, 14))
        for name, dtype, options in [
            ("plain", "f4", {}),
            ("zlib", "f8", {"zlib": True, "shuffle": False}),
            ("shuffled", "i4", {"zlib": True, "shuffle": True}),
            ("big", "f4", {"endian": "big"}),
            ("large", "i8", {"zlib": True}),
            ("holes", "f8", {"zlib": True, "fill_value": -1.0}),
            ("warm", "f4", {}),
            ("unsigned", "u4", {}),
        ]:
            variable = file.createVariable(name, dtype, ("time", "lat", "lon"), chunksizes=(4, 5, 6), **options)
            variable.set_auto_mask(False)
            variable[:] = values if dtype[0] == "f" else values.round()
        file["holes"][2:4, 3] = -1.0
        file["holes"][0, 0, 0] = -1.0
        file["warm"].valid_min = np.float32(270)
        file["large"][0, 0, 0] = 2**53 + 1


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    dir = tmp_path_factory.mktemp("store")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(dir),
        "BENTHIC_STORE": f"file:{dir}/store",
        "BENTHIC_S3_SEALING_KEY": str(dir / "sealing.key"),
    }

    def run(*args):
        subprocess.run([PROGRAMS / "benthic", *args], env=environment, check=True, timeout=60)

    write_files(dir)
    run("pool", "create", "files")
    run("put", "files/a.nc", dir / "a.nc")
    # The class runs, as it does in an OSD.
    command = [PROGRAMS / "benthic-array", "--json", "array", "serve", "--listen", "127.0.0.1:0", "--pushdown", "always"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    started = json.loads(process.stdout.readline())
    files = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    files.dir = dir
    threading.Thread(target=files.serve_forever, daemon=True).start()
    yield {**started, "dir": dir, "files_url": f"http://127.0.0.1:{files.server_port}"}
    files.shutdown()
    process.terminate()
    assert process.wait(30) == 143


def local(server, variable, axis=None):
    return Active(str(server["dir"] / "a.nc"), variable, axis=axis)


def remote(server, variable, axis=None, kind="s3"):
    key = {"s3": ["key", "secret"], "https": ["username", "password"]}[kind]
    options = dict(zip(key, [server["access_key"], server["secret_key"]]))
    uri = f"{server['files_url']}/files/a.nc"
    if kind == "s3":
        uri = "s3://files/a.nc"
        options["client_kwargs"] = {"endpoint_url": server["files_url"]}
    active = Active(
        uri, variable, axis=axis, interface_type=kind, storage_options=options, active_storage_url=server["url"]
    )
    active._version = 2
    return active


KEYS = [np.s_[:], np.s_[2:7, :, 3:4], np.s_[1:9:3, 4:, ::2]]
VARIABLES = ["plain", "zlib", "shuffled", "big", "large", "holes", "warm", "unsigned"]


def check(found, expected):
    assert found.shape == expected.shape
    assert (np.ma.getmaskarray(found) == np.ma.getmaskarray(expected)).all()
    # PyActiveStorage itself adds in the type of the array.
    np.testing.assert_allclose(np.ma.filled(found, 0), np.ma.filled(expected, 0), rtol=1e-6)


@pytest.mark.parametrize("kind", ["s3", "https"])
@pytest.mark.parametrize("method", ["min", "max", "sum", "mean"])
@pytest.mark.parametrize("variable", VARIABLES)
def test_reductions_are_those_of_the_local_file(server, variable, method, kind):
    for key in KEYS:
        here, there = local(server, variable), remote(server, variable, kind=kind)
        here.method = there.method = method
        check(there[key], here[key])


# PyActiveStorage masks missing values only in files that it reads itself.
@pytest.mark.parametrize("variable", [name for name in VARIABLES if name not in ["holes", "warm"]])
def test_selections_are_those_of_the_local_file(server, variable):
    for key in KEYS:
        check(remote(server, variable)[key], local(server, variable)[key])


@pytest.mark.parametrize("method", ["min", "max", "sum"])
def test_the_first_axis_is_reduced(server, method):
    # PyActiveStorage 0.8.0 cannot place the results of other axes, nor their means: it expects results that keep all axes.
    here, there = local(server, "zlib", axis=(0,)), remote(server, "zlib", axis=(0,))
    here.method = there.method = method
    check(there[:], here[:])


def test_errors_reach_the_user(server):
    there = remote(server, "plain")
    there.storage_options["secret"] = "wrong"
    there.method = "max"
    with pytest.raises(reductionist.ReductionistError, match="401"):
        there[:]


def test_the_guide(server, monkeypatch):
    block = re.search(r"```py\n(.*?)```", (ROOT / "docs/guide/arrays.md").read_text(), re.DOTALL)[1]
    block = block.replace("climate/era5.nc", "files/a.nc").replace('"t2m"', '"plain"')
    for text, value in [
        ("http://127.0.0.1:9000", server["files_url"]),
        ("http://127.0.0.1:8080", server["url"]),
        ("ACCESS_KEY", server["access_key"]),
        ("SECRET_KEY", server["secret_key"]),
    ]:
        assert text in block
        block = block.replace(text, value)
    names = {}
    with contextlib.redirect_stdout(None):
        exec(compile(block, "arrays.md", "exec"), names)
    with netCDF4.Dataset(server["dir"] / "a.nc") as file:
        np.testing.assert_allclose(names["warmest"], file["plain"][:].max())
