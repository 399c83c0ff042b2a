"""What reports say about the histogram, and how wrong the answers are."""
