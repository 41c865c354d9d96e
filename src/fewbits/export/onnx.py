"""Export of an encoder as an ONNX model, from rows of features to bits.

The input ``rows`` is dense (float32, documents x features), because few runtimes accept sparse inputs. The row of a
document is ``engine.features.transform([text]).toarray()``: tf-idf of length 1. The outputs are ``bits`` (uint8) and
``margins`` (float32), the distance of each bit from flipping.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
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

OPSET, IR_VERSION = 17, 8  # supported by runtimes since 2022
CHECKED_DOCUMENTS = 2000  # whose bits are compared before a model is written
BLOCK_ROWS = 256  # converted to dense at a time
POSTERIOR_NAMES = ("class_weights", "class_bias", "class_codewords")
ROUNDING = 1e-5  # relative to the largest margin: summation order can change a margin by this much


@dataclass(frozen=True)
class Parity:
    """Comparison of the bits of an ONNX model with those of its hasher."""

    documents: int
    bits: int
    differing: int
    largest_margin: float  # among differing bits
    rounding: float  # margins up to this may have either sign

    def __str__(self) -> str:
        summary = f"{self.differing:,} of {self.bits:,} bits of {self.documents:,} documents differ"
        if self.differing:
            summary += f", all with margins of at most {self.largest_margin:.1e}"
        return summary


def write_encoder(engine: SearchEngine, path: Path) -> Parity:
    """Write an engine's encoder as ONNX after checking that it gives the same bits for documents of the engine."""
    model = make_encoder(engine.hasher)
    parity = check_encoder(model, engine.hasher, _rows_to_check(engine))
    with atomic_write(path) as stream:
        stream.write(model)
    return parity


def make_encoder(hasher: Hasher) -> bytes:
    """Return the encoder of a hasher as a serialised ONNX model."""
    layers = hasher.layers()
    if layers is None:
        raise ParameterError(
            f"{type(hasher).__name__} cannot be exported to ONNX: its encoder is not a network of layers",
            allowed=", ".join(name for name, method in METHODS.items() if _has_layers(method.hasher)),
            hint="Use one of these methods, or export the codes.",
        )
    helper, numpy_helper, types = _onnx()
    nodes, weights, last = [], [], "rows"
    output = "margins" if layers.posterior is None else "encoder_logits"
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
        last = output if is_last else f"layer_{number}"
        nodes.append(helper.make_node("Add", [f"product_{number}", names[1]], [last]))
    if layers.posterior is not None:
        arrays = zip(POSTERIOR_NAMES, astuple(layers.posterior), strict=True)
        weights += [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in arrays]
        nodes += [
            helper.make_node("MatMul", ["rows", POSTERIOR_NAMES[0]], ["class_products"]),
            helper.make_node("Add", ["class_products", POSTERIOR_NAMES[1]], ["class_scores"]),
            helper.make_node("Softmax", ["class_scores"], ["class_probabilities"], axis=1),
            helper.make_node("MatMul", ["class_probabilities", POSTERIOR_NAMES[2]], ["class_logits"]),
            helper.make_node("Add", [output, "class_logits"], ["margins"]),
        ]
    weights.append(numpy_helper.from_array(np.zeros((), dtype=np.float32), "zero"))
    nodes.append(helper.make_node("GreaterOrEqual", ["margins", "zero"], ["is_one"]))
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
    """Compare a model with its hasher on rows; raise DataError if bits differ beyond rounding errors."""
    session = _session(model)
    differing_margins: list[NDArray[np.float32]] = [np.zeros(0, dtype=np.float32)]
    scale = 1.0
    for start in range(0, rows.shape[0], BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        dense = np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float32)
        [bits] = session.run(["bits"], {"rows": dense})
        margins = np.abs(hasher.margins(block))
        scale = max(scale, float(margins.max()))
        differing_margins.append(margins[bits != hasher.transform(block)])
    differing = np.concatenate(differing_margins)
    parity = Parity(
        documents=rows.shape[0],
        bits=rows.shape[0] * hasher.n_bits,
        differing=len(differing),
        largest_margin=float(differing.max(initial=0)),
        rounding=ROUNDING * scale,
    )
    if parity.largest_margin > parity.rounding:
        raise DataError("the ONNX model and the hasher give different bits", got=parity)
    return parity


def _has_layers(hasher: type[Hasher]) -> bool:
    return hasher.layers is not Hasher.layers


def _rows_to_check(engine: SearchEngine) -> Any:
    """Return rows of the engine's documents; random ones for embeddings, which the engine does not store."""
    if isinstance(engine.features, TextVectorizer):
        texts = (document.text for document in engine.documents())
        return engine.features.transform(list(islice(texts, CHECKED_DOCUMENTS)))
    generator = np.random.default_rng(0)
    return normalize(generator.standard_normal((CHECKED_DOCUMENTS, engine.features.n_features))).astype(np.float32)


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
