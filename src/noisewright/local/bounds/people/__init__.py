"""How many people known tasks take of any protocol, and what proves it."""
