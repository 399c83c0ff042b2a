"""Measurements of rows of numbers, without cells."""
