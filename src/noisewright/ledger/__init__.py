"""What was spent on whom, for ever: datasets with budgets, and releases that take from them."""
