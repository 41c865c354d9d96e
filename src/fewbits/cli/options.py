"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Engine = Annotated[Path, typer.Argument(help="Folder of a saved engine.", metavar="ENGINE")]
Source = Annotated[
    str, typer.Argument(help="JSON Lines, CSV, TSV, Parquet, a .txt file, a folder of them, or - (stdin).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Bits = Annotated[int, typer.Option("--n-bits", "--bits", help="Length of the codes.")]
Hits = Annotated[int | None, typer.Option("--k", "-k", help="Number of hits. [default: 10]")]
TextFields = Annotated[
    list[str] | None, typer.Option("--text", help="Field of the text; several are joined. [default: text]")
]
IdField = Annotated[str | None, typer.Option(help="Field of the id. Without it ids are positions, from 0.")]
LabelField = Annotated[str | None, typer.Option(help="Field of the label or labels.")]
LabelSeparator = Annotated[str | None, typer.Option(help="What separates labels inside the field.")]
MetadataFields = Annotated[
    list[str] | None, typer.Option("--metadata", help="Field to keep beside the text and to filter by, or several.")
]
MaxFeatures = Annotated[int, typer.Option(help="Words in the vocabulary.")]
TokenPattern = Annotated[str | None, typer.Option(help="Regular expression of a word. [default: letters a-z]")]
Encoding = Annotated[str, typer.Option(help="Encoding of the file.")]
EmbeddingsFile = Annotated[Path | None, typer.Option(help="A .npy table of ready-made embeddings, a row a document.")]
OnlyLabels = Annotated[
    list[str] | None, typer.Option("--label", help="Only documents with this label, or one of several.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(help="Only documents whose metadata passes, such as 'year>=2020'; several: all of them."),
]
Rescore = Annotated[
    str | None,
    typer.Option(help="What decides the order: none (differing bits), bits (weighed by certainty) or words."),
]
Shortlist = Annotated[int | None, typer.Option(help="Documents whose words are looked at. [default: 3000]")]
Explain = Annotated[bool, typer.Option("--explain", help="Say for each hit which bits agree and which words decided.")]
