"""Plans of running counts, and the streams that run by them."""
