"""What holds for every test."""

from hypothesis import settings

# Tests never assert timings: on a busy machine a deadline fails for no fault of the code.
settings.register_profile("noisewright", deadline=None)
settings.load_profile("noisewright")
