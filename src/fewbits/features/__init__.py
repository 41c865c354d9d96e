"""Features of documents: sparse tf-idf rows of texts, or precomputed embeddings."""

from fewbits.features.embeddings import Embeddings
from fewbits.features.neighbors import nearest_by_cosine
from fewbits.features.vectorizer import TextVectorizer

__all__ = ["Embeddings", "TextVectorizer", "nearest_by_cosine"]
