"""What commands have in common: options, output, failures, tables, budgets."""
