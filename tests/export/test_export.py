"""Exported encoders and codes, read back by the tools they are written for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import onnxruntime
import pytest
from pyarrow import parquet
from scipy import sparse
from sklearn.preprocessing import normalize

from fewbits import Document, SearchEngine
from fewbits.codes import from_faiss, from_milvus, unpack
from fewbits.errors import DataError, ParameterError
from fewbits.export import check_encoder, make_encoder, write_encoder, write_faiss, write_npy, write_parquet
from fewbits.hashers.registry import make_hasher
from helpers.engines import encoded_documents_of

ROWS = 4000
QUICK = {"epochs": 2, "n_neighbours": 0}


@pytest.fixture(scope="module")
def rows() -> Any:
    """Return rows of about 30 of 600 words, mostly of one of twelve topics, so that there is structure to learn."""
    generator = np.random.default_rng(0)
    topics = np.arange(ROWS)[:, None] % 12 == np.arange(600) // 50
    chosen = generator.random((ROWS, 600)) < np.where(topics, 0.4, 0.02)
    return normalize(sparse.csr_array((chosen * generator.random((ROWS, 600))).astype(np.float32)))


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("lsh", {}),
        ("itq", {}),
        ("sth", {}),
        ("bernoulli-vae", {**QUICK, "hidden": ()}),
        ("bernoulli-vae", {**QUICK, "hidden": (40, 30)}),
        ("vdsh", {"epochs": 1, "hidden": (40,)}),
        ("s-rbm", {"epochs": 10, "pretraining_epochs": 10, "hidden": (40,)}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.get("hidden", ()))),
)
def test_onnx_model_gives_the_bits_of_the_hasher(rows: Any, method: str, parameters: dict[str, Any]) -> None:
    hasher = make_hasher(method, 24, 0, **parameters).fit(rows[:800])
    session = onnxruntime.InferenceSession(make_encoder(hasher), providers=["CPUExecutionProvider"])
    bits, margins = session.run(["bits", "margins"], {"rows": rows.toarray()})
    expected = hasher.transform(rows)
    differing = bits != expected
    by_rounding = np.abs(hasher.margins(rows)) < 1e-5
    print(f"{method}: {differing.sum()} of {bits.size} bits differ, {by_rounding.sum()} are within rounding of 0")
    assert bits.dtype == np.uint8
    assert np.median(bits.std(axis=0)) > 0.1  # constant bits would agree with anything
    assert not (differing & ~by_rounding).any()
    assert np.allclose(margins, hasher.margins(rows), atol=1e-4)
    assert check_encoder(make_encoder(hasher), hasher, rows).differing == differing.sum()


def test_encoder_of_a_text_engine_is_checked_on_its_documents(documents: list[Document], tmp_path: Path) -> None:
    engine = SearchEngine.from_documents(documents, n_bits=20)
    parity = write_encoder(engine, tmp_path / "encoder.onnx")
    assert (parity.documents, parity.bits) == (60, 1200)
    session = onnxruntime.InferenceSession(tmp_path / "encoder.onnx", providers=["CPUExecutionProvider"])
    texts = ["simmer the onions", "a boat in the wind"]
    rows: Any = engine.features.transform(texts)
    [bits] = session.run(["bits"], {"rows": rows.toarray()})
    assert np.array_equal(bits, unpack(engine.encode(texts), 20))


def test_encoder_of_an_embedding_engine_is_checked_on_random_rows(tmp_path: Path) -> None:
    embeddings = np.random.default_rng(0).normal(size=(50, 12))
    engine = SearchEngine.from_embeddings(embeddings, n_bits=16)
    assert write_encoder(engine, tmp_path / "encoder.onnx").documents == 2000
    session = onnxruntime.InferenceSession(tmp_path / "encoder.onnx", providers=["CPUExecutionProvider"])
    [bits] = session.run(["bits"], {"rows": engine.features.transform(embeddings)})
    assert np.array_equal(bits, unpack(engine.encode(embeddings), 16))


def test_model_that_differs_from_the_hasher_is_rejected(rows: Any) -> None:
    one, other = (make_hasher("lsh", 24, seed).fit(rows[:100]) for seed in (0, 1))
    with pytest.raises(DataError, match="and the hasher give different bits"):
        check_encoder(make_encoder(one), other, rows[:100])


@pytest.mark.parametrize("method", ["sph", "agh"])
def test_method_without_layers_raises_an_error_that_lists_those_with_layers(rows: Any, method: str) -> None:
    hasher = make_hasher(method, 8, 0).fit(rows[:400])
    with pytest.raises(ParameterError, match=r"cannot be exported to ONNX.*allowed: lsh, s-rbm, sth, itq") as caught:
        make_encoder(hasher)
    assert method not in str(caught.value).split("allowed: ")[1].split(", ")


@pytest.fixture
def changed(engine: SearchEngine) -> SearchEngine:
    """Return an engine with one document removed, one added, and one without a word of the vocabulary."""
    engine.remove(["cooking-0"])
    engine.add([Document('new, "quoted"\nétoile', "boat and harbour", ("sailing",)), Document("mute", "xyzzy")])
    return engine


def read_ids(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.with_name(path.name + ".ids.jsonl").read_text().splitlines()]


def test_npy_file_has_the_codes_in_the_order_of_the_ids(changed: SearchEngine, tmp_path: Path) -> None:
    write_npy(encoded_documents_of(changed), tmp_path / "codes.npy")
    codes = np.load(tmp_path / "codes.npy", allow_pickle=False)
    ids = read_ids(tmp_path / "codes.npy")
    assert codes.shape == (60, 3)
    assert set(ids) == {document.id for document in changed.documents()} - {"mute"}
    assert np.array_equal(codes, changed.codes(ids))


def test_faiss_index_returns_the_distances_of_the_engine(changed: SearchEngine, tmp_path: Path) -> None:
    write_faiss(encoded_documents_of(changed), tmp_path / "codes.faiss")
    index = faiss.read_index_binary(str(tmp_path / "codes.faiss"))
    ids = read_ids(tmp_path / "codes.faiss")
    assert (index.d, index.ntotal) == (24, 60)
    stored = [from_faiss(index.reconstruct(row), 20)[0] for row in range(60)]
    assert np.array_equal(np.array(stored), changed.codes(ids))
    distances, found = index.search(changed.encode(["boat and harbour"]), 60)
    hits = changed.search("boat and harbour", 60, rerank="none")
    expected = {hit.id: hit.distance for hit in hits}
    assert {ids[row]: distance for row, distance in zip(found[0], distances[0], strict=True)} == expected


def test_parquet_table_has_ids_codes_and_labels(changed: SearchEngine, tmp_path: Path) -> None:
    write_parquet(encoded_documents_of(changed), tmp_path / "codes.parquet")
    table = parquet.read_table(tmp_path / "codes.parquet")
    assert table.schema.metadata[b"n_bits"] == b"20"
    ids = table["id"].to_pylist()
    assert np.array_equal(from_milvus(table["code"].to_pylist(), 20), changed.codes(ids))
    assert [tuple(some) for some in table["labels"].to_pylist()] == encoded_documents_of(changed).labels


def test_integer_ids_stay_integers(tmp_path: Path) -> None:
    engine = SearchEngine.from_texts(["red apples", "green pears", "red plums"], ids=[7, 5, 9], n_bits=8, method="lsh")
    write_npy(encoded_documents_of(engine), tmp_path / "codes.npy")
    write_parquet(encoded_documents_of(engine), tmp_path / "codes.parquet")
    assert read_ids(tmp_path / "codes.npy") == [7, 5, 9]
    assert parquet.read_table(tmp_path / "codes.parquet")["id"].to_pylist() == [7, 5, 9]


def test_empty_engine_exports_empty_files(engine: SearchEngine, tmp_path: Path) -> None:
    engine.remove([document.id for document in list(engine.documents())])
    write_npy(encoded_documents_of(engine), tmp_path / "codes.npy")
    write_faiss(encoded_documents_of(engine), tmp_path / "codes.faiss")
    write_parquet(encoded_documents_of(engine), tmp_path / "codes.parquet")
    assert np.load(tmp_path / "codes.npy").shape == (0, 3)
    assert faiss.read_index_binary(str(tmp_path / "codes.faiss")).ntotal == 0
    assert parquet.read_table(tmp_path / "codes.parquet").num_rows == 0
