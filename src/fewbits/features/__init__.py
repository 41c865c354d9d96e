"""What a hasher sees of a document: a sparse tf-idf row, or an embedding of the user's own."""

from fewbits.features.dense import Embeddings
from fewbits.features.neighbours import nearest_by_cosine
from fewbits.features.text import TextVectorizer

__all__ = ["Embeddings", "TextVectorizer", "nearest_by_cosine"]
