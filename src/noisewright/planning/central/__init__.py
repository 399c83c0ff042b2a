"""Plans with a trusted curator: the mechanism that errs least, its answers and figures."""
