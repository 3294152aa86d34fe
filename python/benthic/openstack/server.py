"""An NBD server for each attached volume.

A server must outlive the process that starts it: a restart of cinder-volume may not disturb running
virtual machines. So it has a session of its own, and the driver finds it again through its socket.
The kernel says which process listens on a Unix socket. A file with the process's number could name
a wrong process later, and is not needed.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

from oslo_concurrency import lockutils

from .program import Benthic, ProgramError, read_error

SOCKET_BYTES_MAX = 107
"""The longest path of a socket in Linux."""

WAIT_S = 60.0
"""Time for a server to open its image, or to end."""


class Server:
    """The server of one image. The files ``NAME.sock`` and ``NAME.log`` are in ``directory``."""

    def __init__(self, benthic: Benthic, directory: str, name: str) -> None:
        self._benthic = benthic
        self._name = name
        self.export = benthic.address(name)
        self.socket = Path(directory, f"{name}.sock")
        self._log = Path(directory, f"{name}.log")

    @property
    def uri(self) -> str:
        """The address of the image by the NBD URI specification."""
        return f"nbd+unix:///{quote(self.export)}?socket={quote(str(self.socket))}"

    def start(self) -> None:
        """Starts the server, unless it runs. Returns when clients can connect.

        Raises :class:`ProgramError`.
        """
        with lockutils.lock(f"benthic-{self._name}"):
            if self._process() is None:
                self._start()

    def stop(self) -> None:
        """Ends the server, which completes the requests that it has read. Does nothing if none runs.

        Raises :class:`ProgramError`.
        """
        with lockutils.lock(f"benthic-{self._name}"):
            process = self._process()
            if process is not None:
                self._stop(process)
            self.socket.unlink(missing_ok=True)
            self._log.unlink(missing_ok=True)

    def _start(self) -> None:
        arguments = self._benthic.command("serve", "--listen", f"unix:{self.socket}", self.export)
        try:
            log = self._log.open("w")
        except OSError as error:
            raise ProgramError("unavailable", f"cannot write the log of the NBD server: {error}") from error
        with log:
            try:
                started = subprocess.Popen(
                    arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            except OSError as error:
                raise self._benthic.not_started(error) from error
        # The server listens before it opens the image, and prints the address afterwards.
        deadline = time.monotonic() + WAIT_S
        while '"uri"' not in self._log.read_text():
            if started.poll() is not None:
                raise read_error(self._log.read_text(), started.returncode)
            if time.monotonic() > deadline:
                started.terminate()
                message = "the NBD server does not start; its log has more"
                raise ProgramError("unavailable", message, {"log": str(self._log)})
            time.sleep(0.02)
        # QEMU runs as another user, in the group of the directory.
        self.socket.chmod(0o660)

    def _process(self) -> int | None:
        """The process that listens on the socket."""
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self.socket))
            except (FileNotFoundError, ConnectionRefusedError):
                return None
            except OSError as error:
                message = f"cannot connect to the NBD server: {error}"
                raise ProgramError("unavailable", message, {"socket": str(self.socket)}) from error
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            process: int = struct.unpack("3i", peer)[0]
            return process

    def _stop(self, process: int) -> None:
        context = {"image": self.export, "process": str(process)}
        try:
            handle = os.pidfd_open(process)
            try:
                signal.pidfd_send_signal(handle, signal.SIGTERM)
                ended, _, _ = select.select([handle], [], [], WAIT_S)
            finally:
                os.close(handle)
        except ProcessLookupError:
            return
        except (OSError, ValueError) as error:
            message = f"cannot end the NBD server: {error}"
            raise ProgramError("permission_denied", message, context) from error
        if not ended:
            raise ProgramError("busy", "the NBD server does not end; it may wait for the store", context)
