"""Plans without a curator: what devices send, how it is read, and what it is worth."""
