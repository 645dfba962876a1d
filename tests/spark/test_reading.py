"""Tables and views as DataFrames: which columns, partitions and rows are read, and of which moment."""

import json

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from belvedere.pipeline.read import visible_columns
from belvedere.spark import reading
from belvedere.spark.calls import SparkFaceError
from belvedere.spark.columns import spark_type
from belvedere.spark.options import SourceOptions
from belvedere.spark.source import arrow_schema
from tests.spark.conftest import Store, until


@pytest.fixture
def store(store: Store) -> Store:
    """Orders of 50 customers: 40 each, of which CQL has changed some."""
    store.cql(
        "CREATE TABLE KS.t (customer int, day text, id int, total double, PRIMARY KEY ((customer, day), id))"
    )
    frame = store.spark.range(2000).selectExpr(
        "int(id % 50) customer", "string(id % 2) day", "int(id) id", "id / 2.0D total"
    )
    store.write(frame, "t")
    store.cql(
        "DELETE FROM KS.t WHERE customer = 4 AND day = '0' AND id = 4",
        "UPDATE KS.t SET total = -1 WHERE customer = 5 AND day = '1' AND id = 5",
        "INSERT INTO KS.t (customer, day, id, total) VALUES (5, '1', 9999, 0)",
    )
    return store


def read_work(store: Store, columns: str = "", **keys: object) -> tuple[int, list[dict[str, object]]]:
    """How many partitions Spark would get, and the rows that they give without Spark filtering any."""
    given = {**store.options, "table": store.name("t"), "columns": columns}
    if keys:
        given["keys"] = json.dumps(keys)
    options = SourceOptions.of(given)
    read = reading.begin(options)
    known = visible_columns(read.description.the_table())
    names = [column.name for column in known if not columns or column.name in columns.split(",")]
    kinds = {column.name: spark_type(column.type) for column in known}
    types = {"int": pa.int32(), "string": pa.string(), "double": pa.float64()}
    schema = pa.schema([(name, types[kinds[name]]) for name in names])
    work = reading.work_of(read, names)
    rows = [row for one in work for batch in reading.rows_of(one, schema) for row in batch.to_pylist()]
    reading.end(options, read)
    return len(work), rows


def test_a_partition_for_every_tablet_with_rows(store: Store) -> None:
    tablets = store.cql("SELECT tablets FROM system_views.table_status WHERE keyspace_name = 'KS'")
    assert store.read("t").rdd.getNumPartitions() == tablets[0]["tablets"] == 4
    store.cql("CREATE TABLE KS.empty (k int PRIMARY KEY)")
    assert store.read("empty").collect() == []
    assert store.read("empty").columns == ["k"]


def test_rows_are_those_of_cql_at_the_moment_of_the_read(store: Store) -> None:
    frame = store.read("t")
    found = {tuple(row) for row in frame.collect()}
    assert found == {tuple(row.values()) for row in store.cql("SELECT * FROM KS.t")}
    assert len(found) == 2000
    assert frame.where("total = -1").count() == 1


def test_only_columns_that_are_asked_for(store: Store) -> None:
    frame = store.read("t", columns="total, id")
    assert frame.columns == ["total", "id"]
    assert frame.where("id = 9999").collect()[0].asDict() == {"total": 0.0, "id": 9999}
    chosen = store.spark.read.format("belvedere").options(**store.options).schema("id int, total double")
    assert chosen.load(store.name("t")).agg({"id": "max"}).collect()[0][0] == 9999
    with pytest.raises(PySparkException, match=r"SparkFaceError: .*has no column nope; it has customer, day"):
        store.read("t", columns="id,nope")


def test_keys_read_their_partitions_and_nothing_else(store: Store) -> None:
    tablets, rows = read_work(store, customer=[5, 7], day="1")
    assert tablets <= 2
    assert {row["customer"] for row in rows} == {5, 7}
    assert len(rows) == 81
    assert read_work(store, customer=777, day="1")[1] == []
    assert read_work(store, customer=[], day="1") == (0, [])
    assert read_work(store, "total", customer=5, day=["0", "1"])[1].count({"total": -1.0}) == 1

    frame = store.read("t", keys=json.dumps({"customer": 5, "day": "1"}))
    assert frame.rdd.getNumPartitions() == 1
    assert frame.count() == 41
    assert store.read("t", keys=json.dumps({"customer": [], "day": "1"})).collect() == []


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('{"customer": 5}', "names the columns of the partition key of .*, customer, day; not customer"),
        ('{"customer": 5, "day": "0", "id": 1}', "not customer, day, id"),
        ('{"customer": "x", "day": "0"}', "option keys: customer: Unable to make int from 'x'"),
        ("[5]", "option keys is a JSON object"),
        ('{"customer": 5', "option keys is a JSON object"),
    ],
)
def test_keys_that_are_none(store: Store, keys: str, message: str) -> None:
    options = {**store.options, "table": store.name("t"), "keys": keys}
    before = store.jobs("read-")
    with pytest.raises(SparkFaceError, match=message):
        reading.begin(SourceOptions.of(options))
    assert store.jobs("read-") == before


def test_keys_of_types_that_numpy_and_arrow_do_not_compare(store: Store) -> None:
    store.cql(
        "CREATE TABLE KS.u (l frozen<list<decimal>>, u uuid, x double, PRIMARY KEY ((l, u, x)))",
        "INSERT INTO KS.u (l, u, x) VALUES ([1.0], 123e4567-e89b-42d3-a456-426614174000, NaN)",
        "INSERT INTO KS.u (l, u, x) VALUES ([1.00], 123e4567-e89b-42d3-a456-426614174000, 1)",
    )
    key = {"l": [[1.0], [2]], "u": "123E4567-e89b-42d3-a456-426614174000", "x": ["NaN", 1]}
    assert [row.l for row in store.read("u", keys=json.dumps(key)).collect()] == [["1.0"]]


def test_filters_of_one_query_do_not_show_in_another(store: Store) -> None:
    frame = store.read("t")
    some = frame.where("customer = 5 AND day = '1'")
    assert some.count() == 41
    assert frame.count() == 2000
    assert some.unionAll(frame.where("customer = 6 AND day = '0'")).count() == 81
    assert frame.where("customer IN (5, 6)").count() == 81


def test_all_that_is_made_of_a_frame_is_of_one_moment(store: Store) -> None:
    """The moment is that of the first action, not of `load`."""
    frame = store.read("t")
    store.cql("INSERT INTO KS.t (customer, day, id) VALUES (1, 'before', 1)")
    assert frame.count() == 2001
    store.cql("INSERT INTO KS.t (customer, day, id) VALUES (1, 'after', 1)")
    assert frame.count() == 2001
    assert frame.where("day = 'before'").count() == 1
    assert frame.where("day = 'after'").count() == 0
    assert store.read("t").count() == 2002


def test_a_snapshot_that_is_gone_is_not_a_read_without_rows(store: Store) -> None:
    frame = store.read("t")
    before = store.jobs("read-")
    assert frame.count() == 2000
    (read,) = store.jobs("read-") - before
    store.cql(f"CALL end_read('{read}')")
    with pytest.raises(PySparkException, match=r"SparkFaceError: the snapshot of .* is gone"):
        frame.collect()
    assert store.read("t").count() == 2000


def test_views_are_read_like_tables_unless_they_are_half_built(store: Store) -> None:
    view = (
        "CREATE MATERIALIZED VIEW KS.{} AS SELECT * FROM KS.t WHERE id IS NOT NULL AND customer IS NOT NULL "
        "AND day IS NOT NULL PRIMARY KEY (id, customer, day){}"
    )
    store.cql(view.format("by_id", ""), view.format("held", " WITH build = {'hold': 'true'}"))
    store.wait_for_loads("by_id")
    found = {tuple(row) for row in store.read("by_id").select("customer", "day", "id", "total").collect()}
    assert found == {tuple(row) for row in store.read("t").collect()}
    with pytest.raises(PySparkException, match=r"SparkFaceError: .*is not built yet"):
        store.read("held").collect()
    store.cql("DROP MATERIALIZED VIEW KS.held")


def test_a_table_that_changed_since_the_frame_was_made(store: Store) -> None:
    frame = store.read("t")
    before = store.jobs("read-")
    store.cql("ALTER TABLE KS.t DROP total")
    with pytest.raises(PySparkException, match="column total is gone since the DataFrame was made"):
        frame.collect()
    until(lambda: store.jobs("read-") == before)


def test_what_is_not_there(store: Store) -> None:
    with pytest.raises(PySparkException, match=r"SparkFaceError: there is no table .*\.nope"):
        store.read("nope")
    reader = store.spark.read.format("belvedere")
    with pytest.raises(PySparkException, match=r"no answer from 127\.0\.0\.1:1: .* Is a server running"):
        reader.options(host="127.0.0.1", port="1").load("ks.t")
    with pytest.raises(PySparkException, match="which table"):
        reader.load()
    with pytest.raises(PySparkException, match=r"option table is keyspace\.table"):
        reader.load("t")
    with pytest.raises(PySparkException, match=r"belvedere has no option colums\. There are: table"):
        store.read("t", colums="id")
    with pytest.raises(PySparkException, match="option port is a whole number"):
        reader.options(port="x").load("ks.t")


def test_schemas_of_arrow_are_those_of_spark(store: Store) -> None:
    schema = arrow_schema(store.read("t").schema)
    assert schema.types == [pa.int32(), pa.string(), pa.int32(), pa.float64()]
