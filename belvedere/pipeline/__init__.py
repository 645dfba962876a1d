"""Building, loading, verifying in columns: jobs on Spark, and the exchange that they read and write."""
