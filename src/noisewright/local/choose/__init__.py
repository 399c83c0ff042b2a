"""Which local mechanism: every one that applies, what it costs, and the best of them."""
