"""The service: addresses, connections, and who gets in."""
