"""Figures of the papers, made anew: every point is computed here, none is copied."""
