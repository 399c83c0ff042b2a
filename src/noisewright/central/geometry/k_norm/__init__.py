"""K-norm noise: one draw in the shape of what one person can change."""
