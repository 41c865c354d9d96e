"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Engine = Annotated[Path, typer.Argument(help="Folder of a saved engine.", metavar="ENGINE")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Bits = Annotated[int, typer.Option("--n-bits", "--bits", help="Length of the codes.")]
Hits = Annotated[int | None, typer.Option("--k", "-k", help="Number of hits. [default: 10]")]
TextFields = Annotated[
    list[str] | None, typer.Option("--text", help="Field of the text; several are joined. [default: text]")
]
IdField = Annotated[str | None, typer.Option(help="Field of the id. Without it ids are positions, from 0.")]
Encoding = Annotated[str, typer.Option(help="Encoding of the file.")]
