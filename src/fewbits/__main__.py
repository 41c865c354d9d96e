"""Run the command line: ``python -m fewbits``."""

from fewbits.cli import main

main()
