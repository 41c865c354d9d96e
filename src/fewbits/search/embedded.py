"""Engines of embeddings: texts encoded by a function of the user, and hits ordered by the embeddings that are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewbits.data.document import Document
from fewbits.errors import DataError, ParameterError
from fewbits.index import Index
from fewbits.search.encoder import EncodedQueries, Model, nonzero_rows
from fewbits.search.fitting import FitOptions, make_documents
from fewbits.search.rerank import Ranked, RankOptions, SearchOptions, rank_by_codes
from fewbits.search.store.reader import Reader

TextEncoder = Callable[[list[str]], ArrayLike]  # texts to embeddings, one row per text

DOCUMENT_PARTS = ("texts", "ids", "labels", "metadata")
DEPTH, DEPTH_PER_HIT = 100, 10  # documents with near codes whose embeddings are compared


def embed(model: Model, encode: TextEncoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the embeddings of texts, as the features of a model."""
    rows: NDArray[np.float32] = model.rows(
        encode(list(texts)) if len(texts) else np.zeros((0, model.features.n_features))
    )
    if len(rows) != len(texts):
        allowed = f"{len(texts)}, one per text"
        raise DataError("the encoder returned a wrong number of embeddings", allowed=allowed, got=len(rows))
    return rows


def encode_texts(model: Model, encode: TextEncoder | None, texts: Sequence[str]) -> list[EncodedQueries | None]:
    """Encode texts as queries; None where there is no encoder, but words, or where the embedding is zero."""
    if encode is None and not model.has_words:
        hint = "Give from_embeddings texts or an encoder to search by texts."
        raise DataError("the query is of another kind", allowed="an embedding", got="str", hint=hint)
    if encode is None or not len(texts):
        return [None] * len(texts)
    rows = embed(model, encode, texts)
    known = nonzero_rows(rows)
    return [
        model.encode_queries(rows[[number]]) if is_known else None for number, is_known in enumerate(known.tolist())
    ]


def read_embeddings(model: Model, reader: Reader, position: int) -> NDArray[np.float32] | None:
    """Return the embedding of a document as a table of one row; None if embeddings are not kept."""
    if not model.info.keeps_embeddings:
        return None
    return reader.vectors(np.array([position]), model.features.n_features).astype(np.float32)


def rank_embedded(
    model: Model, queries: EncodedQueries, chosen: RankOptions, options: SearchOptions, index: Index, reader: Reader
) -> list[Ranked]:
    """Rank by codes; where embeddings are kept, order the best by cosine, unless another ranking is asked for."""
    if not model.info.keeps_embeddings or any(map(options.get, ("rank", "rerank", "rescore"))):
        return rank_by_codes(queries, chosen, index)
    deeper = replace(chosen, k=max(DEPTH, DEPTH_PER_HIT * chosen.k))
    ordered = []
    for row, ranked in zip(queries.rows, rank_by_codes(queries, deeper, index), strict=True):
        cosines = reader.vectors(ranked.positions, len(row)).astype(np.float32) @ row
        order = np.argsort(-cosines, kind="stable")[: chosen.k]
        ordered.append(Ranked(ranked.positions, ranked.distances, cosines.astype(np.float32)).take(order))
    return ordered


def embedded_documents(
    embeddings: ArrayLike, documents: Iterable[Document] | None = None, **options: Any
) -> tuple[Iterable[Document] | None, FitOptions]:
    """Return the documents of embeddings, which may be given by their parts, and the options of the fit."""
    parts = {name: value for name, value in options.items() if name in DOCUMENT_PARTS and value is not None}
    settings = FitOptions(**{name: value for name, value in options.items() if name not in DOCUMENT_PARTS})
    if not parts:
        return documents, settings
    if documents is not None:
        hint = f"Omit {', '.join(parts)}, which documents have themselves."
        raise ParameterError("give documents or their parts", allowed=", ".join(DOCUMENT_PARTS), got="both", hint=hint)
    texts = parts.pop("texts", None)
    return make_documents([""] * len(np.asarray(embeddings)) if texts is None else texts, **parts), settings
