"""Errors: one class for each kind.

A kind says what the caller should do, not what failed inside. Every class derives from
:class:`Error`, and also from Python's own class for the same failure, where there is one::

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
    """Base class of all Benthic errors.

    ``str(error)`` is for people: the operation, the message, and ``key=value`` pairs.
    """

    kind: ClassVar[str] = "error"
    """The stable name of the kind, as in ``benthic --json``."""

    op: str
    """The operation that failed; empty if it is not known."""

    message: str
    """The message without the operation and the context."""

    context: dict[str, str]
    """The affected item, such as ``{"object": "reef.txt"}``."""

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
    """The item to create already exists."""

    kind = "already_exists"


class ConflictError(Error):
    """Another client changed the item: read it again, then decide again."""

    kind = "conflict"


class InvalidArgumentError(Error, ValueError):
    """The request is invalid, or its handle is closed; repeating it will not help."""

    kind = "invalid_argument"


class UnsupportedError(Error, NotImplementedError):
    """This engine, class or version does not support the request."""

    kind = "unsupported"


class PermissionDeniedError(Error):
    """The caller may not do this."""

    kind = "permission_denied"


class UnavailableError(Error):
    """The store cannot be reached now, or rejects writes. Nothing was changed."""

    kind = "unavailable"


class BusyError(Error):
    """The store is overloaded or the item is in use: retry later."""

    kind = "busy"


class LimitExceededError(Error):
    """A limit of size, count, time, memory or space was exceeded. Nothing was stored."""

    kind = "limit_exceeded"


class CorruptError(Error):
    """Stored bytes are damaged. Damaged bytes are never returned."""

    kind = "corrupt"


class ClassFailedError(Error):
    """A method failed, panicked, or did something that it had not declared. The object is
    unchanged.
    """

    kind = "class_failed"


class OutcomeUnknownError(Error):
    """A write may or may not have happened. Read the object to find out; do not retry blindly."""

    kind = "outcome_unknown"


class InternalError(Error):
    """A defect in Benthic."""

    kind = "internal"
