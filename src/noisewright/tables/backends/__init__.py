"""Where tables live: files and frames in DuckDB, PostgreSQL, Spark."""
