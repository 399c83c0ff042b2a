"""From errors to budgets, budgets shared by several plans, and how a plan asks for its own."""
