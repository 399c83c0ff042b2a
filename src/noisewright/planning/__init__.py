"""Plans: which mechanism, how much noise, and the answers it will give."""
