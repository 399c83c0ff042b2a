"""Attributes, encoders, cells."""
