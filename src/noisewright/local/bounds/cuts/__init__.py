"""Proofs by cuts, for workloads of few queries."""
