"""Runs a command as a user does. Checks that its messages agree with its exit status, and that it is
never silent for long.
"""

import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[4]
PROGRAM = ROOT / "target" / "release" / "benthic"
STATUSES = ROOT / "docs" / "reference" / "exit-statuses.md"
# The exit statuses of each kind of error, as documented.
STATUSES_OF = {}
for _status, _kind in re.findall(r"^\| (\d+) \| `(\w+)` \|$", STATUSES.read_text(), re.MULTILINE):
    STATUSES_OF.setdefault(_kind, set()).add(int(_status))
VERDICTS = {0: "healthy", 20: "degraded", 21: "at_risk", 22: "down"}
# A command that waits says so in five seconds, and again every ten. The rest is for a busy machine.
SILENT_MAX_S = 5 + 2
REPEAT_MAX_S = 10 + 8
# After a failure of these kinds, a change may have happened.
UNKNOWN = {"outcome_unknown", "interrupted", "killed", "no_answer"}


class Outcome:
    """How a command ended: `kind` is "ok" or the kind of its error."""

    def __init__(self, name, status, stdout, errors, seconds):
        self.name = name
        self.status = status
        self.stdout = stdout
        self.errors = errors
        self.seconds = seconds
        if status == 0:
            self.kind = "ok"
        elif status == -signal.SIGKILL:
            self.kind = "killed"
        else:
            self.kind = errors[-1]["kind"] if errors else None

    def __repr__(self):
        return f"{self.name}: status {self.status} after {self.seconds:.1f} s, {self.errors}"

    @property
    def may_have_happened(self):
        return self.kind in UNKNOWN

    @property
    def lines(self):
        """The complete JSON lines on stdout."""
        return [json.loads(line) for line in self.stdout.decode().splitlines(keepends=True) if line.endswith("\n")]


class Running:
    """A running command. Its lines on stderr are JSON, because it runs with `--json`."""

    def __init__(self, args, dir, store, stdout=subprocess.PIPE, env=None):
        self.args = args
        command = [str(PROGRAM), "--json", "--store", store, *args]
        environment = {name: value for name, value in os.environ.items() if name != "BENTHIC_STORE"} | (env or {})
        self.began_s = time.monotonic()
        pipes = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, cwd=dir, env=environment, **pipes)
        self.stdout, self.stderr, self.times_s, self.ends_s = [], [], [], []
        readers = [(self.process.stderr, self.stderr), (self.process.stdout, self.stdout)]
        self.readers = [threading.Thread(target=self._read, args=pair) for pair in readers if pair[0]]
        for reader in self.readers:
            reader.start()

    def _read(self, pipe, lines):
        with pipe:
            for line in pipe:
                lines.append(line)
                self.times_s.append(time.monotonic() - self.began_s)
            self.ends_s.append(time.monotonic() - self.began_s)

    def says(self, key):
        """Waits for a line on stderr with this key, as long as a command may be silent."""
        while True:
            for line in self.stderr:
                if key in json.loads(line):
                    return json.loads(line)[key]
            if self.process.poll() is not None or time.monotonic() - self.began_s > SILENT_MAX_S:
                # The last lines may have arrived since.
                for reader in self.readers:
                    reader.join(0.2)
                if any(key in json.loads(line) for line in self.stderr):
                    continue
                break
            time.sleep(0.01)
        raise AssertionError(f"{self.args} says nothing of {key!r}: {self.stderr}")

    def ended(self, timeout_s=120):
        """Waits for the end, and checks that the messages agree with the exit status."""
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"{self.args} still runs after {timeout_s} s: {self.stderr}") from None
        for reader in self.readers:
            reader.join()
        # The test may look later than the command ended.
        seconds = max(self.ends_s)
        text = b"".join(self.stderr).decode()
        try:
            said = [json.loads(line) for line in text.splitlines()]
        except ValueError:
            raise AssertionError(f"{self.args} writes to stderr what is not JSON: {text}") from None
        errors = [line["error"] for line in said if "error" in line]
        name = " ".join(self.args)
        outcome = Outcome(name, status, b"".join(self.stdout), errors, seconds)
        times_s = sorted([0, *self.times_s, seconds])
        gap_s = max(later - earlier for earlier, later in itertools.pairwise(times_s))
        assert all(len(line) == 1 and set(line) <= {"waiting", "warning", "log", "error"} for line in said), said
        assert times_s[1] < SILENT_MAX_S and gap_s < REPEAT_MAX_S, (times_s, outcome)
        if status == 0 or status in VERDICTS and self.args[0] == "health":
            assert not errors, outcome
        elif status > 0:
            assert errors and status in STATUSES_OF[outcome.kind], outcome
            assert all(error["message"] and not error["message"].endswith("\n") for error in errors), outcome
        return outcome
