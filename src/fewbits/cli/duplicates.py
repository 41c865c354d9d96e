"""Commands on near-duplicates: their groups in an engine or a file, the documents without them, and a measurement."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fewbits.benchmark.experiments import DuplicateSearch
from fewbits.cli.benchmark import bench
from fewbits.cli.experiments import run_experiment
from fewbits.cli.options import AsJson, DuplicateFileOptions, ResultsFolder, expand_options, renamed
from fewbits.cli.output import plural, print_json, print_status
from fewbits.data import DocumentId, write_documents
from fewbits.data.text_file import TextFile
from fewbits.errors import ParameterError
from fewbits.search import MIN_SIMILARITY, DuplicateGroup, DuplicateOptions, NearDuplicate, SearchEngine
from fewbits.search.duplicates import make_groups, name_matches, without_duplicates
from fewbits.search.near_duplicates import LEAST_SIMILARITY, FoundPairs, check_min_similarity, find_pairs, match_against
from fewbits.storage import MANIFEST

SHOWN_CHANGES = 5  # of a document; --json prints all


@expand_options
def duplicates(
    engine: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Engine folder, or a file or folder of texts, as for fit.")
    ],
    files: DuplicateFileOptions,
    against: Annotated[
        Path | None, typer.Option(help="Another file: list the documents of SOURCE that nearly repeat one of it.")
    ] = None,
    min_similarity: Annotated[
        float | None,
        typer.Option(help=f"Minimum cosine similarity of the words. [default: {MIN_SIMILARITY}]", min=0, max=1),
    ] = None,
    numbers: Annotated[
        str,
        typer.Option(
            help="Numbers and product codes: same (texts with others are different), word (they count as any word) or "
            "ignore."
        ),
    ] = "same",
    keep: Annotated[int, typer.Option(help="Number of documents to keep of each group.", min=1)] = 1,
    prefer: Annotated[str, typer.Option(help="Documents that stay: first, longest or newest (the last).")] = "first",
    radius: Annotated[
        int | None,
        typer.Option(
            "--radius",
            "-r",
            help="Compare the codes of an engine instead: maximum Hamming distance. --min-similarity 0 compares only "
            "codes.",
        ),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(help="File for the pairs found in files, which another --min-similarity reads again."),
    ] = None,
    alike: Annotated[float | None, typer.Option(hidden=True, min=0, max=1)] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the documents that stay as JSON Lines, with all their fields."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Group near-duplicates, show what differs, and optionally write the documents without them.

    Near-duplicates have nearly the same words and the same numbers and product codes. A document is left out only if it
    is a near-duplicate of one that stays. With --radius, groups are formed by chaining codes alone or codes and words.

    Example: fewbits duplicates news.jsonl --text title --text body --output unique.jsonl
    """
    source = engine
    given = renamed("min-similarity", min_similarity, "alike", alike)
    similarity = MIN_SIMILARITY if given is None else given
    if (source / MANIFEST).is_file():
        if against is not None or pairs is not None:
            raise ParameterError("an engine is not compared with a file", allowed="--against and --pairs with files")
        _of_engine(source, radius, DuplicateOptions(similarity, numbers, keep, prefer), output, as_json=as_json)
        return
    if radius is not None:
        raise ParameterError(f"{source} has no codes", allowed="--radius with an engine folder", hint="Omit --radius.")
    options = DuplicateOptions(check_min_similarity(similarity, LEAST_SIMILARITY), numbers, keep, prefer)
    file = TextFile(source, files.reading_texts())
    if against is None:
        _of_file(file, options, pairs, output, as_json=as_json)
    else:
        _between_files(file, TextFile(against, files.reading_texts()), options, pairs, output, as_json=as_json)


def _of_engine(
    folder: Path, radius: int | None, options: DuplicateOptions, output: Path | None, *, as_json: bool
) -> None:
    loaded = SearchEngine.load(folder, verify=False)
    groups = loaded.duplicates(
        radius, options.min_similarity, numbers=options.numbers, keep=options.keep, prefer=options.prefer
    )
    _report(groups)
    if output is not None:
        count = write_documents(output, without_duplicates(loaded.documents(), groups))
        _report_output(output, count, sum(len(group.left_out) for group in groups))
    _print(groups, as_json=as_json)


def _of_file(
    file: TextFile, options: DuplicateOptions, pairs: Path | None, output: Path | None, *, as_json: bool
) -> None:
    found = _found(file, None, options, pairs)
    groups = make_groups(found, file.texts, range(len(found.originals)), options)
    left_out = {int(row) for group in groups for row in group.left_out}
    named = [_named(group, file.ids) for group in groups]
    _report(named, found.n_empty)
    if output is not None:
        _report_output(output, file.write_without(left_out, output), len(left_out))
    _print(named, as_json=as_json)


def _between_files(
    file: TextFile,
    other: TextFile,
    options: DuplicateOptions,
    pairs: Path | None,
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """List the documents of a file that nearly repeat one of another file."""
    found = _found(file, other, options, pairs)
    n_other, own_ids = len(other.ids), file.ids
    matches = match_against(found, n_other, options.min_similarity)

    def texts() -> Iterator[str]:
        yield from other.texts()
        yield from file.texts()

    ids = {match.row: own_ids[match.row - n_other] for match in matches}
    ids |= {match.of: other.ids[match.of] for match in matches}
    named = list(name_matches(matches, texts, ids))
    reasons = _reasons(named)
    print_status(f"{plural(len(named), 'document')} of {file.path} nearly repeat one of {other.path}{reasons}.")
    if output is not None:
        left_out = {match.row - n_other for match in matches}
        _report_output(output, file.write_without(left_out, output), len(left_out))
    for match in named:
        if as_json:
            print_json(match)
        else:
            print(f"{match.id}\t{match.of}\t{_description(match)}")


def _found(file: TextFile, other: TextFile | None, options: DuplicateOptions, pairs: Path | None) -> FoundPairs:
    """Find pairs, or read those that were found before."""
    sources = [file] if other is None else [other, file]
    stamp = 0 if pairs is None else zlib.crc32(repr([source.stamp() for source in sources]).encode())
    if pairs is not None:
        found = FoundPairs.load(pairs, stamp, options.numbers, options.min_similarity)
        if found is not None:
            print_status(f"Using the pairs in {pairs}.")
            return found

    def texts() -> Iterator[str]:
        for source in sources:
            yield from source.texts()

    found = find_pairs(texts, options.min_similarity, options.numbers)
    if pairs is not None:
        found.save(pairs, stamp)
    return found


def _named(group: DuplicateGroup, ids: Sequence[DocumentId]) -> DuplicateGroup:
    """Replace the rows in a group by ids."""
    matches = tuple(
        NearDuplicate(ids[int(match.id or 0)], ids[int(match.of)], match.similarity, match.reason, match.changes)
        for match in group.matches
    )
    rows = (group.representative, *group.others), group.kept
    (first, *others), kept = ([ids[int(row)] for row in part] for part in rows)
    return DuplicateGroup(first, tuple(others), tuple(kept), matches)


def _report(groups: Sequence[DuplicateGroup], n_empty: int = 0) -> None:
    n_duplicates = sum(len(group.left_out) for group in groups)
    reasons = _reasons(match for group in groups for match in group.matches if match.id not in set(group.kept))
    print_status(f"{plural(len(groups), 'group')} with {plural(n_duplicates, 'duplicate')}{reasons}.")
    if n_empty:
        print_status(f"{plural(n_empty, 'document')} without text were not compared.")


def _reasons(matches: Iterable[NearDuplicate]) -> str:
    counts: Mapping[str, int] = Counter(match.reason for match in matches)
    return ": " + ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items())) if counts else ""


def _report_output(output: Path, count: int, n_duplicates: int) -> None:
    print_status(f"Wrote {plural(count, 'document')} to {output}, omitting {plural(n_duplicates, 'duplicate')}.")


def _print(groups: Sequence[DuplicateGroup], *, as_json: bool) -> None:
    """Print the ids of each group on a line, and below it what differs."""
    for group in groups:
        if as_json:
            print_json(group)
            continue
        print("\t".join(map(str, (group.representative, *group.others))))
        kept = set(group.kept)
        for match in group.matches:
            stays = ", stays" if match.id in kept else ""
            print(f"  {match.id} (like {match.of}{stays}): {_description(match)}")


def _description(match: NearDuplicate) -> str:
    shown = [_change(change.removed, change.added) for change in match.changes[:SHOWN_CHANGES]]
    more = len(match.changes) - len(shown)
    parts = [match.reason, *shown, *([f"and {more} more"] if more else [])]
    return f"{match.similarity:.2f}  " + "; ".join(parts)


def _change(removed: str, added: str) -> str:
    if not removed:
        return f"+ {_shortened(added)}"
    return f"- {_shortened(removed)}" + (f" + {_shortened(added)}" if added else "")


def _shortened(passage: str) -> str:
    return passage if len(passage) <= 60 else passage[:40] + " … " + passage[-15:]


@bench.command("duplicates")
def bench_duplicates(
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            "--corpus",
            help="docstrings, ng20, arxiv or sentences (of arXiv, mixed); repeatable. [default: the first three]",
        ),
    ] = None,
    documents: Annotated[int, typer.Option(help="Maximum number of texts.", min=1000)] = 100_000,
    files: Annotated[
        Path | None, typer.Option(help="Folder for the collections as files. [default: a temporary one]")
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Write one JSON file per collection.")] = False,
    results: ResultsFolder = Path("results"),
) -> None:
    """Measure near-duplicates: recall and precision against all pairs, edited copies, CPU time and memory.

    Example: fewbits bench duplicates --corpus sentences --documents 1000000 --save
    """
    experiment = DuplicateSearch(corpus or ["docstrings", "ng20", "arxiv"], documents, files, progress=print_status)
    run_experiment(experiment, results if save else None)
