"""Figures of the papers, made anew from a checkout: `python -m reproductions fig1`."""
