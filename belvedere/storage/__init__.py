"""One tablet replica on one disk: commit log, memtable, Parquet sstables, compaction."""
