"""The face to PySpark: DataFrames written into tables, tables and views read as DataFrames."""
