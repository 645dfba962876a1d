"""PySpark looks for modules named pyspark_… and registers their DefaultSource: the format "belvedere"."""

from belvedere.spark.source import BelvedereSource as DefaultSource

__all__ = ["DefaultSource"]
