"""Which coordinate has the largest mean: protocols, their plan, and their simulation."""
