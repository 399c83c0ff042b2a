"""The project installs and imports."""

import noisewright


def test_version_is_stated() -> None:
    assert noisewright.__version__.count(".") == 2
