"""From what was measured to answers that make sense: fits, projections, intervals, accuracy.

Nothing here sees data or draws noise: all of it is done with what was released.
"""
