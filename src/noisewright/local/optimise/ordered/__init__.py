"""The search over coarse bins and fine translates, for long ordered domains."""
