"""The trusted curator: strategies measured exactly on a grid, and the answers they give."""
