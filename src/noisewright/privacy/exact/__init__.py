"""Numbers with proven errors, and the side to which they are rounded."""
