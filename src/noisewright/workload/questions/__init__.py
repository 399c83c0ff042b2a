"""Questions about a table, the statistics that answer them, and what they measure."""
