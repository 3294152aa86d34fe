"""The base class of handles."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Handle:
    """A handle that a ``with`` statement closes."""

    def close(self) -> None:
        """Closes the handle."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
