"""Pure privacy by geometry: noise in the shape of what one person can change."""
