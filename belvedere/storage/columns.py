"""Between wire values and Arrow columns: what of CQL's types other readers of the files see.

Every value survives the round trip as its normalised wire bytes (`CQLType.normalise`):

    from_arrow(t, to_arrow(t, values)).to_list() == values

The columns are made to be read by others: numbers as numbers, times as times, text as text. What no Parquet
type holds exactly (varint, decimal with its scale, addresses) is text, which every reader can cast.
"""

from belvedere.storage.columns_read import from_arrow
from belvedere.storage.columns_types import arrow_type
from belvedere.storage.columns_wire import FixedColumn, ListColumn, VariableColumn, WireColumn
from belvedere.storage.columns_write import to_arrow

__all__ = [
    "FixedColumn",
    "ListColumn",
    "VariableColumn",
    "WireColumn",
    "arrow_type",
    "from_arrow",
    "to_arrow",
]
