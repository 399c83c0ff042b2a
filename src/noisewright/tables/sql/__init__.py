"""What is asked of an engine, as SQL."""
