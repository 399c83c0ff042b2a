"""`noisewright plan`, with a curator, without one, over open values and over rows."""
