"""Arguments that several commands take, and the types of their values."""

import argparse
from typing import Any

from belvedere.cql.errors import CQLSyntaxError
from belvedere.cql.expressions import TableName
from belvedere.model.types_names import quote_name
from belvedere.server.settings import is_spark_setting


def add_server(parser: argparse.ArgumentParser) -> None:
    """Where the server is that a command asks."""
    parser.add_argument("--host", default="127.0.0.1", help="where the server listens (default: %(default)s)")
    parser.add_argument("--port", type=port_number, default=9042, help="its CQL port (default: %(default)s)")


def add_spark(parser: argparse.ArgumentParser, purpose: str) -> None:
    parser.add_argument(
        "--spark",
        action=_SparkSetting,
        metavar="KEY=VALUE",
        help=f"a setting of Spark ({purpose}), such as spark.master=local[2] or spark.driver.memory=2g; "
        "may be given several times (default: Spark in this machine)",
    )


def spark_settings(arguments: argparse.Namespace) -> dict[str, str]:
    return dict(arguments.spark or {})


class _SparkSetting(argparse.Action):
    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        name, equals, value = values.partition("=")
        if not equals or not is_spark_setting(name):
            raise argparse.ArgumentError(
                self, f"KEY=VALUE with a key that begins with spark., not {values!r}"
            )
        settings = {**(getattr(namespace, self.dest) or {}), name: value}
        if "spark.master" in settings and "spark.remote" in settings:
            raise argparse.ArgumentError(self, "spark.master and spark.remote exclude each other")
        setattr(namespace, self.dest, settings)


def port_number(text: str) -> int:
    # More than 16 bits would be cut off by the system, and another port opened.
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, not {text!r}")
    return int(text)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number, at least 1, not {text!r}")
    return int(text)


def table_name(text: str) -> TableName:
    """`keyspace.name`, as in CQL: quoted where CQL has quotes."""
    found = _name(text)
    if found is None or found.keyspace is None:
        raise argparse.ArgumentTypeError(
            f"keyspace.name, names with capital letters in double quotes as in CQL, not {text!r}"
        )
    return found


def keyspace_or_table(text: str) -> TableName:
    """`keyspace` or `keyspace.name`; of a keyspace alone the table's name is empty."""
    found = _name(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"keyspace or keyspace.name as in CQL, not {text!r}")
    return found if found.keyspace is not None else TableName(found.name, "")


def cql_name(name: TableName) -> str:
    """As CQL wants it, and as people may give it back to us."""
    assert name.keyspace is not None
    return f"{quote_name(name.keyspace)}.{quote_name(name.name)}"


def _name(text: str) -> TableName | None:
    from belvedere.cql.parser import parse_table_name

    try:
        return parse_table_name(text)
    except CQLSyntaxError:
        return None
