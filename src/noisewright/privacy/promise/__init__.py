"""What is promised and what is spent: budgets, losses, their composition and their limits."""
