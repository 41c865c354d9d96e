"""Documents with ids, texts and labels: from files, the benchmark data sets, or the default corpus."""

from fewbits.data.datasets.docstrings import read_docstrings
from fewbits.data.document import Document, DocumentId
from fewbits.data.io import read_documents, write_documents

__all__ = ["Document", "DocumentId", "read_docstrings", "read_documents", "write_documents"]
