"""One class for each kind of error."""

import pickle

import benthic
import pytest
from benthic import _native, errors


def test_every_kind_has_its_class():
    table = _native.error_table()
    assert len(table) == len({kind for kind, _ in table})
    for kind, name in table:
        found = getattr(benthic, name)
        assert issubclass(found, benthic.Error) and found.kind == kind
    classes = {name for name in errors.__all__ if name != "Error"}
    assert classes == {name for _, name in table}
    assert set(errors.__all__) <= set(benthic.__all__)


def test_an_error_has_its_context(in_memory):
    pool = in_memory.pool()
    with pytest.raises(benthic.NotFoundError) as failure:
        pool.get("nothing")
    error = failure.value
    assert isinstance(error, LookupError)
    assert error.kind == "not_found" and error.op == "read" and error.message == "no such object"
    assert error.context["object"].endswith("/nothing")
    assert str(error) == f"read: no such object object={error.context['object']}"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.context) == (type(error), str(error), error.context)


def test_errors_derive_from_pythons_classes():
    assert issubclass(benthic.InvalidArgumentError, ValueError)
    assert issubclass(benthic.UnsupportedError, NotImplementedError)


def test_closed_handles_raise(tmp_path):
    store = benthic.connect(f"file:{tmp_path}/s")
    pool = store.create_pool("p")
    table = store.create_table("p/t", {"x": list(range(100_000))})
    rows, other = table.scan(), pool.with_namespace("n")
    batches = iter(table.scan())
    next(batches)
    dataset = table.dataset()
    with other:
        other.put("o", b"")
    with pytest.raises(benthic.InvalidArgumentError, match="closed"):
        other.get("o")
    store.close()
    store.close()
    for use in (
        lambda: store.pools(),
        lambda: store.pool("p"),
        lambda: store.sql("SELECT 1"),
        lambda: pool.get("o"),
        lambda: list(pool.ls()),
        lambda: table.schema,
        lambda: table.append({"x": [1]}),
        lambda: table.scan(),
        lambda: rows.to_arrow(),
        lambda: list(batches),
        lambda: dataset.to_table(),
    ):
        with pytest.raises(benthic.InvalidArgumentError, match="closed"):
            use()
    with benthic.connect(f"file:{tmp_path}/s") as again:
        assert len(again.table("p/t")) == 100_000
