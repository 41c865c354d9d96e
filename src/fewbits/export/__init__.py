"""Export to other tools: the encoder as ONNX, the codes as files, and a model card."""

from fewbits.export.card import render_card
from fewbits.export.codes import write_faiss, write_npy, write_parquet
from fewbits.export.onnx import Parity, check_encoder, make_encoder, write_encoder

__all__ = [
    "Parity",
    "check_encoder",
    "make_encoder",
    "render_card",
    "write_encoder",
    "write_faiss",
    "write_npy",
    "write_parquet",
]
