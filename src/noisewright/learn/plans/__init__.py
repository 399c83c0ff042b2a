"""Learning and refutation without a curator: how it is planned, kept, and what it found."""
