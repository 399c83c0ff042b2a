"""What no pure mechanism goes below: by packings, and by volume."""
