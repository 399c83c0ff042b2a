"""Answers to a maximum error: biased within a tolerance where fewer people are needed for that."""
