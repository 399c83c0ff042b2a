"""Proofs for tables and parities: cells that are alike, by pairs and triples of cells."""
