"""What the collector keeps, in SQLite or PostgreSQL."""
