"""A believable synthetic table and the whole job done on it, end to end."""
