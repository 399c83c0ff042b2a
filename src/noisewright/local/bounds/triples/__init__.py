"""Proofs by triples of cells, for tables and parities of yes/no attributes."""
