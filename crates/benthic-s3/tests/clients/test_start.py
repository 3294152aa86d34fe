"""The commands of docs/start/s3.md run as they stand there."""

import hashlib
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[4] / "docs/start/s3.md"


def test_the_first_success_of_an_s3_user(own_gateway, tmp_path):
    [commands] = re.findall(r"```sh s3\n(.*?)```", PAGE.read_text(), re.DOTALL)
    environment = own_gateway.environment()
    environment["PATH"] = f"{sys.prefix}/bin:{environment['PATH']}"
    command = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert b"a picture, more or less\n" in done.stdout
    assert hashlib.sha256(b"a picture, more or less\n").hexdigest() in done.stdout.decode()
