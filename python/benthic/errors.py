"""What can go wrong, one class for each kind of error.

A kind says what the caller should do, not what happened inside. Every class is an :class:`Error`, and where Python has a class of
its own for the same thing, it is that too::

    try:
        pool.get("reef.txt")
    except benthic.NotFoundError as error:
        print(error.kind, error.context["object"])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

__all__ = [
    "AlreadyExistsError",
    "BusyError",
    "ClassFailedError",
    "ConflictError",
    "CorruptError",
    "Error",
    "InternalError",
    "InvalidArgumentError",
    "LimitExceededError",
    "NotFoundError",
    "OutcomeUnknownError",
    "PermissionDeniedError",
    "UnavailableError",
    "UnsupportedError",
]


class Error(Exception):
    """What all errors of Benthic are.

    ``str(error)`` is for people: the operation, the message, and ``key=value`` pairs.
    """

    kind: ClassVar[str] = "error"
    """The stable name of the kind, as in ``benthic --json``."""

    op: str
    """The operation that failed; empty if it is not known."""

    message: str
    """The message without operation and context."""

    context: dict[str, str]
    """What the error is about, such as ``{"object": "reef.txt"}``."""

    def __init__(
        self, text: str, op: str = "", message: str | None = None, context: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(text)
        self.op = op
        self.message = text if message is None else message
        self.context = dict(context or {})


class NotFoundError(Error, LookupError):
    """The store, pool, object, attribute, table or snapshot is not there."""

    kind = "not_found"


class AlreadyExistsError(Error):
    """What should be made is there already."""

    kind = "already_exists"


class ConflictError(Error):
    """Somebody else changed it: read again, decide again."""

    kind = "conflict"


class InvalidArgumentError(Error, ValueError):
    """The request makes no sense; repeating it will not help. Also for what is used after it was closed."""

    kind = "invalid_argument"


class UnsupportedError(Error, NotImplementedError):
    """This engine, class or version does not have it."""

    kind = "unsupported"


class PermissionDeniedError(Error):
    """The caller may not do this."""

    kind = "permission_denied"


class UnavailableError(Error):
    """The store cannot be reached now, or takes no writes. Nothing was done."""

    kind = "unavailable"


class BusyError(Error):
    """Too much is going on there: try again later."""

    kind = "busy"


class LimitExceededError(Error):
    """Over a limit of size, count, time, memory or space. Nothing was stored."""

    kind = "limit_exceeded"


class CorruptError(Error):
    """Stored bytes are damaged. They are never returned."""

    kind = "corrupt"


class ClassFailedError(Error):
    """A method failed, panicked, or did what it had not declared. The object is as it was."""

    kind = "class_failed"


class OutcomeUnknownError(Error):
    """A write may or may not have happened. Read to find out; do not repeat it blindly."""

    kind = "outcome_unknown"


class InternalError(Error):
    """A defect in Benthic."""

    kind = "internal"
