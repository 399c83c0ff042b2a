"""The search for good ε-LDP strategies: dense, symmetric and ordered domains."""
