"""Answers made whole numbers that agree, and how near the unrounded ones they stay."""
