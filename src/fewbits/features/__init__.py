"""What a hasher sees of a document: a sparse tf-idf row, or an embedding of the user's own."""

from fewbits.features.dense import Embeddings
from fewbits.features.text import TextVectorizer

__all__ = ["Embeddings", "TextVectorizer"]
