"""How workloads are written and read: as text, as files, as plain values."""
