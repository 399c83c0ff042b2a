"""Mechanisms whose reports are noisy vectors."""
