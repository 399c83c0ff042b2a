"""What holds for every test."""

import os
import tempfile

from hypothesis import settings

# Strategies found by tests are not kept in the user's cache.
os.environ["NOISEWRIGHT_CACHE"] = tempfile.mkdtemp(prefix="noisewright-tests-")

# The same examples in every run: a failure can be looked at again. Tests never assert timings: on a
# busy machine a deadline fails for no fault of the code.
settings.register_profile("noisewright", deadline=None, derandomize=True)
settings.load_profile("noisewright")
