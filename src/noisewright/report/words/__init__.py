"""What pages say: promises, plans, queries, steps and numbers in words."""
