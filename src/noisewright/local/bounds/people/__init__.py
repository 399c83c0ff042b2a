"""People without whom no protocol does a task, and the distributions that show it."""
