"""Registers ``spark.read.format("benthic")``: Spark imports the packages that are named ``pyspark_*``
and registers their ``DefaultSource``.
"""

from benthic.engines.spark import BenthicDataSource as DefaultSource

__all__ = ["DefaultSource"]
