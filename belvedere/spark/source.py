"""The data source `belvedere` of PySpark: what Spark calls, in its planners, workers and drivers.

Spark pickles these objects from one Python process to the next, so they hold plain values only.
"""

from collections.abc import Iterator, Sequence
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from belvedere.runtime.plain_files import attempt_name
from belvedere.spark import loading, reading
from belvedere.spark.calls import SparkFaceError
from belvedere.spark.options import SourceOptions
from belvedere.spark.schema import schema_of


class BelvedereSource(DataSource):
    """`spark.read.format("belvedere")` and `df.write.format("belvedere")`."""

    @classmethod
    def name(cls) -> str:
        return "belvedere"

    def schema(self) -> str:
        return schema_of(SourceOptions.of(self.options))

    def reader(self, schema: StructType) -> "BelvedereReader":
        return BelvedereReader(SourceOptions.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> "BelvedereWriter":
        options = SourceOptions.of(self.options)
        if overwrite and not options.confirm_truncate:
            raise SparkFaceError(
                f"mode overwrite would remove all rows of {options.table}: use mode append, which replaces "
                'rows of the same key, or say so with .option("confirm.truncate", "true")'
            )
        load = loading.begin(options, lambda table: arrow_schema(schema))
        if overwrite:
            try:
                options.address.query(f"TRUNCATE {options.table}")
            except SparkFaceError:
                loading.abort(load)
                raise
        return BelvedereWriter(load)


def arrow_schema(schema: StructType) -> pa.Schema:
    """As Spark's workers check it."""
    return to_arrow_schema(schema, timezone="UTC")


# -- reading ---------------------------------------------------------------------------------------


class BelvedereReader(DataSourceReader):
    """Takes no filters. Spark 4.3 keeps one set of partitions for all that is made of a DataFrame: what the
    filter of one query leaves out would be missing in the others. The option `keys` says what to read."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        read = reading.begin(self._options)
        try:
            work = reading.work_of(read, self._schema.fieldNames())
        except SparkFaceError:
            reading.end(self._options, read)
            raise
        return [InputPartition(one) for one in work]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # how Spark says that there are none
            return iter(())
        work = cast(reading.TabletWork, partition.value)
        return reading.rows_of(work, arrow_schema(self._schema))


# -- writing ---------------------------------------------------------------------------------------


class PartMessage(WriterCommitMessage):
    def __init__(self, part: loading.Part) -> None:
        self.part = part


class BelvedereWriter(DataSourceArrowWriter):
    def __init__(self, load: loading.BegunLoad) -> None:
        self._load = load

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return PartMessage(loading.write_part(self._load, attempt_name(), iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        loading.commit(self._load, [one.part for one in messages if isinstance(one, PartMessage)])

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        loading.abort(self._load)
