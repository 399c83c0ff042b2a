"""Mechanisms given as a list of reports and their chances."""
