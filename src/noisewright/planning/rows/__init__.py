"""Plans of rows of numbers: second moments of columns, and pairs of attributes."""
