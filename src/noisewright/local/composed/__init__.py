"""Mechanisms made of others: a public draw of a component, then its report on what it sees."""
