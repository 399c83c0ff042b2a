"""Reports: as bytes, in files, and counted."""
