"""Connections that the parts of a process share, and URIs that other processes can use."""

from __future__ import annotations

import os
import threading
from typing import Any

from .errors import UnsupportedError
from .store import Store, connect, store_uri


class Connection:
    """A store, by its URI. A pickled connection connects again, and so does one in a forked process."""

    def __init__(self, store: Store | str | None) -> None:
        self._store = store if isinstance(store, Store) else None
        self._process = os.getpid()
        self.uri = _absolute_uri(store.uri if isinstance(store, Store) else store_uri(store))

    def open(self) -> Store:
        """The store, for this process."""
        if self._store is not None and self._process == os.getpid():
            return self._store
        return connected(self.uri)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Connection) or self.uri != other.uri:
            return False
        # Each store in memory is another one.
        return not self.uri.startswith("mem:") or self._store is other._store

    def __hash__(self) -> int:
        return hash(self.uri)

    def __reduce__(self) -> Any:
        return Connection, (shared_uri(self.uri),)


def shared_uri(uri: str) -> str:
    """A URI that means the same in processes with another working directory."""
    if uri.startswith("mem:"):
        raise UnsupportedError("other processes cannot read a store in memory; use a directory or a cluster")
    return _absolute_uri(uri)


def _absolute_uri(uri: str) -> str:
    engine, _, rest = uri.partition(":")
    if engine == "mem":
        return uri
    if engine == "file":
        return f"file:{os.path.abspath(rest)}"
    path, mark, options = rest.partition("?")
    pairs = [_absolute(pair) for pair in options.split("&")]
    return f"{engine}:{path}{mark}{'&'.join(pairs)}"


def _absolute(option: str) -> str:
    key, _, value = option.partition("=")
    return f"conf={os.path.abspath(value)}" if key == "conf" and value else option


_lock = threading.Lock()
_stores: dict[str, Store] = {}


def connected(uri: str) -> Store:
    """This process's connection to a store. It stays open until the process exits, so that tasks share
    it and its caches.
    """
    with _lock:
        if uri not in _stores:
            _stores[uri] = connect(uri, create=False)
        return _stores[uri]


def _forget() -> None:
    """Forgets the parent's connections, which a forked process cannot use."""
    global _lock
    _lock = threading.Lock()
    _stores.clear()


os.register_at_fork(after_in_child=_forget)
