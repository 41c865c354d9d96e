"""The command duplicates: groups of near-duplicates, and a corpus without them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fewbits.cli.options import AsJson, Engine, renamed
from fewbits.cli.output import plural, print_json, print_status
from fewbits.data import write_documents
from fewbits.search import MIN_SIMILARITY, SearchEngine, without_duplicates


def duplicates(
    engine: Engine,
    radius: Annotated[
        int, typer.Option("--radius", "-r", help="Maximum Hamming distance between near-duplicates.")
    ] = 3,
    min_similarity: Annotated[
        float | None,
        typer.Option(
            help=f"Minimum cosine similarity of near-duplicates; 0 compares only codes. [default: {MIN_SIMILARITY}]",
            min=0,
            max=1,
        ),
    ] = None,
    alike: Annotated[float | None, typer.Option(hidden=True, min=0, max=1)] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the documents as JSON Lines, with one per group."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Group near-duplicates, and optionally write the corpus without them.

    Groups are formed by chaining, so two documents of a group may differ in more bits than the radius. The document
    that was added first represents its group.

    Example: fewbits duplicates news-engine --radius 3 --output unique.jsonl
    """
    similarity = renamed("min-similarity", min_similarity, "alike", alike)
    loaded = SearchEngine.load(engine, verify=False)
    groups = loaded.duplicates(radius, MIN_SIMILARITY if similarity is None else similarity)
    n_duplicates = sum(len(group.others) for group in groups)
    print_status(f"{plural(len(groups), 'group')} with {plural(n_duplicates, 'duplicate')}.")
    if output is not None:
        count = write_documents(output, without_duplicates(loaded.documents(), groups))
        print_status(f"Wrote {plural(count, 'document')} to {output}, omitting {plural(n_duplicates, 'duplicate')}.")
    for group in groups:
        if as_json:
            print_json(group)
        else:
            print("\t".join(map(str, (group.representative, *group.others))))
