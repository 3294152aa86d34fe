"""Threads, signals, forks, and exit of the process."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import benthic
import numpy
import pyarrow as pa
import pytest

# Long enough to be interrupted, and short enough to end if no interrupt comes.
SLOW = "SELECT count(*) FROM generate_series(1, 30000) a, generate_series(1, 100000) b WHERE a.value * b.value % 7 = 3"


@pytest.fixture(autouse=True)
def ctrl_c():
    """Restores the handler of Ctrl-C, because a background test run may ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def run(script, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(script), *arguments], capture_output=True, text=True, timeout=120, **options
    )


def test_others_run_while_a_query_waits(in_memory):
    done = threading.Event()
    counted = 0

    def query():
        in_memory.store.sql("SELECT count(*) FROM generate_series(1, 3000) a, generate_series(1, 30000) b WHERE a.value * b.value % 7 = 3").to_arrow()
        done.set()

    thread = threading.Thread(target=query)
    thread.start()
    # An iteration takes almost no time. If the query held the interpreter lock, there would be next
    # to none.
    while not done.is_set():
        counted += 1
        done.wait(0.0005)
    thread.join()
    assert counted > 20


def test_ctrl_c_stops_a_query(in_memory):
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        in_memory.store.sql(SLOW).to_arrow()
    timer.join()
    stopped = time.monotonic() - began
    # The query stopped early, and the store still works.
    assert in_memory.store.sql("SELECT 1 AS one").to_pylist() == [{"one": 1}]
    assert stopped < 30


def test_ctrl_c_discards_a_load(in_memory):
    table = in_memory.table({"x": [0]})
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))

    def rows():
        timer.start()
        batch = pa.record_batch({"x": list(range(10_000))})
        # Long enough to be interrupted, but finite.
        for _ in range(100_000):
            yield batch

    reader = pa.RecordBatchReader.from_batches(pa.schema([("x", pa.int64())]), rows())
    with pytest.raises(KeyboardInterrupt):
        table.append(reader)
    timer.join()
    assert len(table) == 1
    table.append({"x": [1]})
    assert len(table) == 2
    # No writer is left, so the drop succeeds at once.
    in_memory.store.drop_table(table.name)


def test_ctrl_c_during_a_commit_discards_the_load(durable, patched):
    table = durable.table({"x": [b""]}, object_size="64MiB")
    native = table._native

    def interrupted(writer):
        timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            return writer.finish()
        finally:
            timer.join()

    def writer(*arguments):
        begun = native.writer(*arguments)
        return patched(begun, finish=lambda: interrupted(begun))

    table._native = patched(native, writer=writer)
    # The commit encodes and writes all rows.
    noise = numpy.random.default_rng(3).bytes(100 * 1024 * 1024)
    step = 1024 * 1024
    data = pa.table({"x": pa.array([noise[at : at + step] for at in range(0, len(noise), step)], pa.binary())})
    with pytest.raises(KeyboardInterrupt):
        table.append(data)
    assert len(table) == 1
    # No writer is left, so the drop succeeds at once. It removes only the first row's object and
    # file list.
    assert durable.store._native.drop_table(table.name, False) == 2


@pytest.mark.parametrize("closed", ["rows", "store"])
def test_a_query_ends_when_it_is_closed(closed):
    with benthic.connect("mem:") as store:
        # The query would take hours.
        rows = store.sql(SLOW.replace("100000", "1000000000"))
        failures = []

        def read():
            try:
                rows.to_arrow()
            except benthic.InvalidArgumentError as failure:
                failures.append(str(failure))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        (rows if closed == "rows" else store).close()
        thread.join(60)
    assert len(failures) == 1 and "closed" in failures[0]


def test_threads_share_a_store(place):
    pool = place.pool()
    table = place.table({"x": list(range(10_000))})

    def work(number):
        for turn in range(20):
            name = f"{number}/{turn}"
            pool.put(name, name.encode())
            assert pool.get(name) == name.encode()
        assert table.scan(filter=f"x >= {number * 100}").to_arrow().num_rows == 10_000 - number * 100
        table.append({"x": [-1]})

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert sum(1 for _ in pool.ls()) == 160
    assert len(table) == 10_008


def test_one_of_two_threads_gets_each_batch(in_memory):
    rows = in_memory.table({"x": list(range(200_000))}).scan()

    def take(_):
        found = 0
        while True:
            try:
                message = rows._native.next()
            except benthic.InvalidArgumentError:
                continue
            if message is None:
                return found
            found += 1

    with ThreadPoolExecutor(2) as threads:
        assert sum(threads.map(take, range(2))) >= 200_000 // 8_192


def test_processes_share_a_directory(tmp_path):
    uri = f"file:{tmp_path}/s"
    script = """
        import sys, benthic
        with benthic.connect(sys.argv[1], create=False) as store:
            store.pool("p").put("theirs", store.pool("p").get("ours"))
            store.table("p/t").append({"x": [2]})
    """
    with benthic.connect(uri) as store:
        pool = store.create_pool("p")
        pool.put("ours", b"data")
        table = store.create_table("p/t", {"x": [1]})
        done = run(script, uri)
        assert done.returncode == 0, done.stderr
        assert pool.get("theirs") == b"data"
        assert len(table) == 2


def test_a_forked_process_must_connect_again(tmp_path):
    script = """
        import os, sys, benthic
        store = benthic.connect(sys.argv[1])
        pool = store.create_pool("p")
        pool.put("o", b"data")
        rows = store.create_table("p/t", {"x": [1]}).scan()
        child = os.fork()
        if child == 0:
            for use in (lambda: pool.get("o"), store.pools, rows.to_arrow, store.close):
                try:
                    use()
                    os._exit(1)
                except benthic.InvalidArgumentError as error:
                    assert "forked" in str(error)
            del store, pool, rows
            with benthic.connect(sys.argv[1]) as again:
                assert again.pool("p").get("o") == b"data"
                assert len(again.table("p/t").scan().to_arrow()) == 1
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert pool.get("o") == b"data"
        store.close()
    """
    done = run(script, f"file:{tmp_path}/s")
    assert done.returncode == 0, done.stderr


def test_a_forked_process_does_not_wait_for_its_parents_threads():
    script = """
        import os, signal, threading, benthic
        store = benthic.connect("mem:")
        pool = store.create_pool("p")
        done = threading.Event()

        def work():
            while not done.is_set():
                pool.exists("o")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(300):
                child = os.fork()
                if child == 0:
                    signal.alarm(20)
                    with benthic.connect("mem:") as again:
                        again.create_pool("p").put("o", b"data")
                    # A fork of a fork.
                    if os.fork() == 0:
                        benthic.connect("mem:").close()
                        os._exit(0)
                    os._exit(os.wait()[1])
                status = os.waitpid(child, 0)[1]
                assert status == 0, status
        finally:
            done.set()
            for thread in threads:
                thread.join()
    """
    done = run(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("engine", ["mem", "file", pytest.param("ceph", marks=pytest.mark.ceph)])
def test_a_process_exits_cleanly_with_open_handles(engine, uri_of):
    script = """
        import sys, uuid, benthic
        store = benthic.connect(sys.argv[1])
        name = f"py-{uuid.uuid4().hex[:12]}"
        pool = store.create_pool(name)
        try:
            pool.write("o", benthic.WriteOp().write_full(b"data"), durable=False)
            rows = iter(store.create_table(f"{name}/t", {"x": list(range(100_000))}).scan())
            next(rows)
        finally:
            if sys.argv[2] == "ceph":
                store.remove_pool(name)
    """
    done = run(script, uri_of(engine), engine)
    assert (done.returncode, done.stderr) == (0, "")


def test_panics_of_methods_print_nothing(tmp_path):
    script = """
        import sys, benthic
        with benthic.connect(sys.argv[1]) as store:
            pool = store.create_pool("p")
            pool.put("o", b"")
            try:
                pool.exec("o", "hello", "panic")
            except benthic.ClassFailedError:
                pass
    """
    done = run(script, f"file:{tmp_path}/s")
    assert (done.returncode, done.stderr) == (0, "")
