"""Belvedere: a table store whose materialized views never drift."""

from typing import TYPE_CHECKING

from belvedere.runtime.version import VERSION

if TYPE_CHECKING:
    from belvedere.query.database import DatabaseOptions
    from belvedere.server.embedded import EmbeddedDatabase

__version__ = VERSION


def open(path: str, options: "DatabaseOptions | None" = None) -> "EmbeddedDatabase":
    """Open (or create) the database in a directory, in this process. Close it, or use it in a `with`."""
    from belvedere.server.embedded import EmbeddedDatabase

    return EmbeddedDatabase(path, options)
