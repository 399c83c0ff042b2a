"""Exact noise on the integers, its laws, and the random bytes it is made of."""
