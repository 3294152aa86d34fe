"""Measures reads through `benthic s3 serve --upstream` against direct reads, with a delay to the upstream.

    python bench/s3/near.py PROGRAM [BLOCK_BYTES...]

PROGRAM is a built `benthic-s3`. Prints a table: medians in milliseconds. The line has no limit on its rate.
"""

import contextlib
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import boto3
import botocore.config

MIB = 1 << 20
ROUNDS = 5


class Line:
    """A TCP proxy that delays everything by half a round trip in each direction."""

    def __init__(self, target, round_trip_ms):
        self.target, self.delay = target, round_trip_ms / 2e3
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            far = socket.create_connection(self.target)
            for source, sink in [(near, far), (far, near)]:
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    def carry(self, source, sink):
        pieces, wake, ended = [], threading.Condition(), False

        def send():
            while True:
                with wake:
                    wake.wait_for(lambda: pieces or ended)
                    if not pieces:
                        return
                    due, piece = pieces.pop(0)
                time.sleep(max(0, due - time.monotonic()))
                with contextlib.suppress(OSError):
                    if not piece:
                        sink.shutdown(socket.SHUT_WR)
                    sink.sendall(piece)

        threading.Thread(target=send, daemon=True).start()
        while not ended:
            try:
                piece = source.recv(1 << 20)
            except OSError:
                piece = b""
            with wake:
                pieces.append((time.monotonic() + self.delay, piece))
                ended = not piece
                wake.notify()


@contextlib.contextmanager
def gateway(program, dir, *options):
    dir.mkdir()
    command = [program, "--store", f"file:{dir}/store", "--json", "s3", "serve", "--listen", "127.0.0.1:0"]
    command += ["--sealing-key", str(dir / "key"), *options]
    with open(dir / "log", "w") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process:
        try:
            line = process.stdout.readline()
            assert line, (dir / "log").read_text()
            yield json.loads(line)
        finally:
            process.terminate()


def client(started, url=None):
    return boto3.client(
        "s3",
        endpoint_url=url or started["url"],
        region_name="us-east-1",
        aws_access_key_id=started["access_key"],
        aws_secret_access_key=started["secret_key"],
        config=botocore.config.Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )


def took_ms(s3, key, **options):
    begun = time.monotonic()
    body = s3.get_object(Bucket="measured", Key=key, **options)["Body"]
    while body.read(MIB):
        pass
    return (time.monotonic() - begun) * 1e3


def main():
    program, blocks = sys.argv[1], [int(size) for size in sys.argv[2:]] or [MIB]
    with tempfile.TemporaryDirectory() as root, gateway(program, pathlib.Path(root) / "far") as far:
        root = pathlib.Path(root)
        there = client(far)
        there.create_bucket(Bucket="measured")
        sizes = {"4 KiB": 4096, "1 MiB": MIB, "64 MiB": 64 * MIB}
        for size, bytes in sizes.items():
            for round in range(ROUNDS + 1):
                there.put_object(Bucket="measured", Key=f"{size}.{round}", Body=bytes * b"x")
        (root / "credentials").write_text(
            f"[default]\naws_access_key_id={far['access_key']}\naws_secret_access_key={far['secret_key']}\n"
        )
        host, port = far["url"].removeprefix("http://").split(":")
        print("| round trip | object | blocks | direct | first read | second, `always` | second, `60` |")
        print("| ---: | --- | --- | ---: | ---: | ---: | ---: |")
        for round_trip in [10, 100]:
            line = Line((host, int(port)), round_trip)
            direct = client(far, line.url)
            for block in blocks:
                found = {}
                for validate in ["always", "60"]:
                    dir = root / f"near-{round_trip}-{block}-{validate}"
                    options = ["--upstream", line.url, "--cache", str(dir / "cache"), "--validate", validate]
                    options += ["--upstream-credentials", str(root / "credentials"), "--block-bytes", str(block)]
                    with gateway(program, dir, *options) as near:
                        here = client(near)
                        reads = [(size, {}) for size in sizes] + [("64 MiB", {"Range": "bytes=40000000-40004095"})]
                        for size, extra in reads:
                            name = "4 KiB of 64 MiB" if extra else size
                            # The last object is only for the ranges, and the first read opens the connections.
                            keys = [f"{size}.{ROUNDS}"] if extra else [f"{size}.{round}" for round in range(ROUNDS)]
                            took_ms(direct, "4 KiB.0"), took_ms(here, "4 KiB.0", Range="bytes=0-0")
                            row = found.setdefault(name, {})
                            row["direct"] = statistics.median(took_ms(direct, key, **extra) for key in keys)
                            row["first"] = statistics.median(took_ms(here, key, **extra) for key in keys)
                            row[validate] = statistics.median(took_ms(here, key, **extra) for key in keys)
                for name, row in found.items():
                    times = " | ".join(f"{row[what]:.0f}" for what in ["direct", "first", "always", "60"])
                    print(f"| {round_trip} ms | {name} | {block // 1024} KiB | {times} |", flush=True)


main()
