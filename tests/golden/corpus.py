"""The documents and embeddings that the golden files are made from."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from fewbits import Document

HERE = Path(__file__).parent

TOPICS = {
    "cooking": "onion garlic pepper soup kettle oven bread butter flour salt lemon herbs simmer roast bake kitchen "
    "recipe spoon plate sauce vinegar honey cheese carrot potato basil stew grill dough pastry cream kettle",
    "gardening": "soil seed root leaf compost shovel tulip rose hedge lawn pruning carrot potato basil herbs honey bee "
    "rain frost spring bloom weed orchard apple pear plum trellis bucket greenhouse harvest moss fern",
    "sailing": "boat harbour mast rope anchor wave tide wind crew deck compass storm rain island cargo sailor rudder "
    "keel horizon lighthouse fog chart voyage captain knot pier canvas coast gull bucket port salt",
    "astronomy": "telescope galaxy star planet orbit moon comet lens light horizon compass chart dust cloud gravity "
    "nebula eclipse crater satellite dark spectrum mirror observatory meteor ring distance sky midnight rocket signal",
    "music": "violin piano rhythm melody chord choir concert stage drum flute string bow note score tune singer "
    "orchestra waltz opera signal ring audience applause rehearsal bass trumpet harp ballad verse echo pitch ticket",
    "railways": "train station track engine carriage signal tunnel bridge ticket platform whistle coal steam cargo "
    "timetable conductor brake wheel rail junction freight suitcase passenger stage coast fog mountain valley distance",
}
COMMON = (
    "morning evening people small large quiet slowly early later often across beside table house road village water "
    "warm cold bright story letter question answer week summer winter river stone paper window"
)


def make_corpus() -> list[Document]:
    """Make 240 documents on six topics whose vocabularies overlap, every fifteenth one a near-duplicate."""
    generator = random.Random(20)
    names = list(TOPICS)
    documents: list[Document] = []
    for number in range(240):
        topic = names[number % 6]
        second = names[(number + 1 + number // 6 % 5) % 6] if number % 7 == 3 else None
        if number % 15 == 14:
            earlier = documents[number - 14]
            words = earlier.text.split()
            words[generator.randrange(len(words))] = generator.choice(COMMON.split())
            topics = earlier.labels
        else:
            pools = [TOPICS[topic].split()] * 6 + [TOPICS[second or topic].split()] * 3 + [COMMON.split()] * 3
            words = [generator.choice(generator.choice(pools)) for _ in range(generator.randint(30, 60))]
            topics = (topic,) if second is None else (topic, second)
        facts = {"year": generator.randint(2001, 2020), "source": generator.choice(["letters", "notes", "reports"])}
        documents.append(Document(f"d{number:03}", " ".join(words), topics, facts))
    return documents


def read_corpus() -> list[Document]:
    """Read the documents of corpus.jsonl."""
    lines = (HERE / "corpus.jsonl").read_text().splitlines()
    return [Document(row["id"], row["text"], tuple(row["labels"]), row["metadata"]) for row in map(json.loads, lines)]


def embeddings() -> Any:
    """Make 40 embeddings of 16 dimensions."""
    return np.random.default_rng(3).standard_normal((40, 16)).round(4)
