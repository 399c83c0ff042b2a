"""Integer blocks: exact measurement, sensitivity, and how wrong answers are."""
