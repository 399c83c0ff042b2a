"""`python -m noisewright` is the command line."""

from noisewright.cli import main

main()
