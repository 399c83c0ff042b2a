"""Placeholder docstring, replaced by its first resident."""
