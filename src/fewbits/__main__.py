"""``python -m fewbits`` is the command line."""

from fewbits.cli import main

main()
