"""Mechanisms that treat every cell alike: a few numbers say everything about them."""
