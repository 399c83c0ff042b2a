"""What nobody declared: values that are told first, and bounds of columns."""
