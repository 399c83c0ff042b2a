"""Kernels that limit what a set can gain: of ordered cells, of tables and parities."""
