"""Ibis queries tables over Postgres' protocol."""

import ibis
import pytest


@pytest.fixture(scope="module")
def connection(server):
    user, password = server.key
    return ibis.postgres.connect(host="127.0.0.1", port=server.port, user=user, password=password, database="benthic")


def test_ibis_finds_tables_and_columns(connection):
    assert {"lake", "other"} <= set(connection.list_databases())
    assert {"Types", "many", "trips"} <= set(connection.list_tables(database="lake"))
    schema = connection.table("trips", database="lake").schema()
    assert schema == ibis.schema({"id": "int64", "city": "string", "fare": "float64"})
    with pytest.raises(ibis.common.exceptions.TableNotFound):
        connection.table("nothing", database="lake")


def test_ibis_queries_tables(connection):
    trips = connection.table("trips", database="lake")
    dear = trips.filter(trips.fare > 15).select("id", "city").execute()
    assert dear.to_dict("records") == [{"id": 2, "city": "Rome"}]
    two = trips.filter(trips.city.isin(["Oslo", "Rome"]))
    by_city = two.group_by("city").agg(rows=two.count(), fare=two.fare.sum())
    assert by_city.order_by("city").execute().to_dict("records") == [
        {"city": "Oslo", "rows": 1, "fare": 10.5},
        {"city": "Rome", "rows": 1, "fare": 20.25},
    ]
    by_id = trips.select("id", "city").order_by("id").to_pyarrow()
    assert by_id.to_pydict() == {"id": [1, 2, 3], "city": ["Oslo", "Rome", None]}
    assert trips.mutate(upper=trips.city.upper()).order_by("id").limit(1).execute()["upper"].to_list() == ["OSLO"]
