"""What a client does, as public whole numbers: a specification, its interpreter and its verifier.

Anybody can run a specification and recompute its ε without trusting the library that wrote it;
docs/reference/randomizer.md is all that another implementation needs.
"""
