"""Run the attacks and print one table: ``python -m attack.run``, with options to choose some.

Outcomes are written to ``results/attack``, one file per attack, and ``docs/reliability.md`` is rendered from them. The
exit code is 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import sys
import time

from attack import changes, connections, folder, fuzzing, request_attacks, service
from attack.outcomes import PAGE, Attack, load, render, save, table

MODULES = (service, request_attacks, connections, fuzzing, folder, changes)
ATTACKS: list[Attack] = [attack for module in MODULES for attack in module.ATTACKS]  # add the attacks of a module here


def main() -> None:
    """Run the chosen attacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="run only attacks whose target or name contains this")
    parser.add_argument("--name", help="run only the attack with exactly this name")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of attempts")
    parser.add_argument("--save", action="store_true", help="keep the outcomes whatever the factor")
    parser.add_argument("--render", action="store_true", help="run nothing, render the page from the kept outcomes")
    arguments = parser.parse_args()
    outcomes = []
    for attack in () if arguments.render else ATTACKS:
        if arguments.only and arguments.only not in f"{attack.target} {attack.name}":
            continue
        if arguments.name not in (None, attack.name):
            continue
        start = time.perf_counter()
        outcome = attack.run(arguments.scale)
        print(f"{attack.name}: {time.perf_counter() - start:.0f} s", *outcome.failures, sep="\n  ", file=sys.stderr)
        outcomes.append((attack.target, outcome))
        if arguments.scale == 1 or arguments.save:
            save(attack.target, outcome)
    if arguments.render or (outcomes and (arguments.scale == 1 or arguments.save)):
        PAGE.write_text(render(load()))
    print(table(load() if arguments.render else outcomes))
    sys.exit(any(outcome.lost for _, outcome in outcomes))


if __name__ == "__main__":
    main()
