"""Runs the program ``benthic`` and turns its output into Python's values and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from oslo_concurrency import processutils

GLANCE_SNAPSHOT = "glance"
"""The snapshot of each image in Glance's store. Volumes are its clones."""


class ProgramError(Exception):
    """A command failed. ``str(error)`` is the program's message with its ``key=value`` pairs."""

    def __init__(self, kind: str, message: str, context: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self.context = dict(context or {})
        super().__init__(" ".join([message, *(f"{key}={value}" for key, value in self.context.items())]))

    @property
    def is_missing_image(self) -> bool:
        """Whether an image or its snapshot is missing, and not the whole pool or store."""
        return self.kind == "not_found" and "image" in self.context


def read_error(output: str, status: int | None = None) -> ProgramError:
    """The error in a command's output on stderr."""
    for line in reversed(output.splitlines()):
        try:
            error = json.loads(line)["error"]
            cause = f": {error['cause']}" if "cause" in error else ""
            return ProgramError(error["kind"], error["message"] + cause, error.get("context"))
        except (ValueError, KeyError, TypeError):
            continue
    return ProgramError("internal", f"benthic ended without a message status={status} output={output.strip()!r}")


class Benthic:
    """The program ``benthic``, for images in one pool of one store."""

    def __init__(self, program: str, store: str, pool: str) -> None:
        self.program = program
        self.store = store
        self.pool = pool

    def address(self, image: str, snapshot: str | None = None) -> str:
        """``POOL/IMAGE`` or ``POOL/IMAGE@SNAPSHOT``."""
        return f"{self.pool}/{image}" + (f"@{snapshot}" if snapshot else "")

    def command(self, *arguments: str) -> list[str]:
        """The command line of ``benthic image``."""
        return [self.program, "--json", "--store", self.store, "image", *arguments]

    def run(self, *arguments: str) -> list[dict[str, Any]]:
        """Runs ``benthic image`` and returns its results.

        Raises :class:`ProgramError`.
        """
        return [json.loads(line) for line in self._execute(*self.command(*arguments)).splitlines()]

    def names(self) -> list[str]:
        """The names of all images in the pool. With ``--json``, the program would open each of them.

        Raises :class:`ProgramError`.
        """
        return self._execute(self.program, "--store", self.store, "image", "ls", self.pool).splitlines()

    def _execute(self, *command: str) -> str:
        try:
            output: str = processutils.execute(*command)[0]
        except processutils.ProcessExecutionError as error:
            raise read_error(error.stderr or "", error.exit_code) from error
        except OSError as error:
            raise self.not_started(error) from error
        return output

    def not_started(self, error: OSError) -> ProgramError:
        """The error for a program that the system cannot start."""
        message = f"cannot start the program benthic; check the option benthic_program: {error.strerror}"
        return ProgramError("unavailable", message, {"program": self.program})

    def info(self, image: str, snapshot: str | None = None) -> dict[str, Any]:
        """The description of an image or of a snapshot."""
        [info] = self.run("info", self.address(image, snapshot))
        return info

    def remove_snapshot(self, image: str, snapshot: str) -> bool:
        """Removes a snapshot. Returns whether it is removed; it is not if it has clones."""
        address = self.address(image, snapshot)
        try:
            self.run("snap", "rm", address)
        except ProgramError as error:
            if error.kind != "conflict":
                raise
            # The error of a server that has the image open names the clones only in its message.
            images = self.run("ls", self.pool) if "clones" not in error.context else []
            if images and not any(image.get("parent") == address for image in images):
                raise
            return False
        return True
