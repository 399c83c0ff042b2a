"""Pages, one kind a file."""
