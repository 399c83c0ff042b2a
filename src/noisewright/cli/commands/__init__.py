"""Commands, imported only when they are called."""
