"""Documents with ids, texts and labels: the user's own files, the benchmark sets, the default corpus."""

from fewbits.corpus.docstrings import read_docstrings
from fewbits.corpus.document import Document, DocumentId
from fewbits.corpus.readers import read_documents
from fewbits.corpus.writers import write_documents

__all__ = ["Document", "DocumentId", "read_docstrings", "read_documents", "write_documents"]
