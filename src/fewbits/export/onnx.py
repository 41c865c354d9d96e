"""An encoder as an ONNX model: rows of features in, bits out.

The input ``rows`` is dense (float32, documents x features), because every runtime multiplies dense tables. A document's
row is what ``engine.features.transform([text]).toarray()`` gives: tf-idf of length 1. The outputs are ``bits`` (uint8)
and ``margins`` (float32), how far each bit is from flipping.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import normalize

from fewbits.errors import DataError, MissingExtraError, ParameterError
from fewbits.features import TextVectorizer
from fewbits.hashers.base import Hasher
from fewbits.hashers.registry import METHODS
from fewbits.search import SearchEngine
from fewbits.storage import atomic_write

OPSET, IR_VERSION = 17, 8  # old enough for runtimes of 2022
CHECKED = 2000  # documents whose bits are compared before a model is written
BLOCK = 256  # rows that are dense at one time
ROUNDING = 1e-5  # of the largest margin: so much may two ways to add up the same numbers differ


@dataclass(frozen=True)
class Parity:
    """Bits of a model beside those of the hasher it was made from."""

    documents: int
    bits: int
    differing: int
    largest_margin: float  # of the bits that differ: how far the surest of them is from flipping
    rounding: float  # up to which a margin may have either side

    def __str__(self) -> str:
        said = f"{self.differing:,} of {self.bits:,} bits of {self.documents:,} documents differ"
        if self.differing:
            said += f", none further than {self.largest_margin:.1e} from its plane"
        return said


def write_encoder(engine: SearchEngine, path: Path) -> Parity:
    """Write an engine's encoder as ONNX, once a runtime gives the same bits for documents of the engine."""
    model = make_encoder(engine.hasher)
    parity = check_encoder(model, engine.hasher, _own_rows(engine))
    with atomic_write(path) as stream:
        stream.write(model)
    return parity


def make_encoder(hasher: Hasher) -> bytes:
    """The encoder of a hasher as an ONNX model."""
    layers = hasher.layers()
    if layers is None:
        raise ParameterError(
            f"{type(hasher).__name__} has no form in ONNX: it is no network of layers",
            allowed=", ".join(name for name, method in METHODS.items() if _has_layers(method.hasher)),
            hint="Learn with one of these methods, or export the codes.",
        )
    helper, numpy_helper, types = _onnx()
    nodes, weights, last = [], [], "rows"
    for number, table in enumerate(layers.tables):
        names = f"weights_{number}", f"bias_{number}"
        weights += [
            numpy_helper.from_array(np.ascontiguousarray(array, dtype=np.float32), name)
            for array, name in zip(table, names, strict=True)
        ]
        if number:
            nodes.append(helper.make_node(layers.activation.capitalize(), [last], [f"active_{number}"]))
            last = f"active_{number}"
        is_last = number + 1 == len(layers.tables)
        nodes.append(helper.make_node("MatMul", [last, names[0]], [f"product_{number}"]))
        last = "margins" if is_last else f"layer_{number}"
        nodes.append(helper.make_node("Add", [f"product_{number}", names[1]], [last]))
    weights.append(numpy_helper.from_array(np.zeros((), dtype=np.float32), "zero"))
    comparison = "GreaterOrEqual" if layers.zero_is_one else "Greater"
    nodes.append(helper.make_node(comparison, ["margins", "zero"], ["is_one"]))
    nodes.append(helper.make_node("Cast", ["is_one"], ["bits"], to=types.UINT8))
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("rows", types.FLOAT, ["documents", hasher.n_features_in_])],
        [
            helper.make_tensor_value_info("bits", types.UINT8, ["documents", hasher.n_bits]),
            helper.make_tensor_value_info("margins", types.FLOAT, ["documents", hasher.n_bits]),
        ],
        weights,
    )
    model = helper.make_model(graph, producer_name="fewbits", opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    return bytes(model.SerializeToString())


def check_encoder(model: bytes, hasher: Hasher, rows: Any) -> Parity:
    """Run a model on rows; its bits are the hasher's but where rounding decides, else it is an error."""
    session = _session(model)
    wrong: list[NDArray[np.float32]] = [np.zeros(0, dtype=np.float32)]
    scale = 1.0
    for start in range(0, rows.shape[0], BLOCK):
        block = rows[start : start + BLOCK]
        dense = np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float32)
        [bits] = session.run(["bits"], {"rows": dense})
        margins = np.abs(hasher.margins(block))
        scale = max(scale, float(margins.max()))
        wrong.append(margins[bits != hasher.transform(block)])
    differing = np.concatenate(wrong)
    parity = Parity(
        documents=rows.shape[0],
        bits=rows.shape[0] * hasher.n_bits,
        differing=len(differing),
        largest_margin=float(differing.max(initial=0)),
        rounding=ROUNDING * scale,
    )
    if parity.largest_margin > parity.rounding:
        raise DataError("the ONNX model gives other bits than the hasher", got=parity)
    return parity


def _has_layers(hasher: type[Hasher]) -> bool:
    return hasher.layers is not Hasher.layers


def _own_rows(engine: SearchEngine) -> Any:
    """Rows of documents of the engine; embeddings are not kept, so random ones stand for them."""
    if isinstance(engine.features, TextVectorizer):
        texts = (document.text for document in engine.documents())
        return engine.features.transform(list(islice(texts, CHECKED)))
    generator = np.random.default_rng(0)
    return normalize(generator.standard_normal((CHECKED, engine.features.n_features))).astype(np.float32)


def _onnx() -> tuple[Any, Any, Any]:
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise MissingExtraError("ONNX", extra="onnx") from error
    return helper, numpy_helper, TensorProto


def _session(model: bytes) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("checking an ONNX model", extra="onnx") from error
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
