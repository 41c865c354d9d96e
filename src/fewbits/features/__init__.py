"""What a hasher sees of a document: a sparse tf-idf row, or an embedding of the user's own."""

from fewbits.features.embeddings import Embeddings
from fewbits.features.neighbors import nearest_by_cosine
from fewbits.features.vectorizer import TextVectorizer

__all__ = ["Embeddings", "TextVectorizer", "nearest_by_cosine"]
