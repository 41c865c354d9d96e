"""fewbits."""
