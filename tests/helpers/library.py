"""Real corpora with labels and metadata for the tests of the page."""

from __future__ import annotations

import re

from fewbits import Document
from fewbits.data import read_docstrings

SEE = re.compile(r"(?:version (?:added|changed):?:?|since|in version)\s*(\d+\.\d+)")

GREETINGS = {
    "русский": (
        "Корабль вышел из гавани утром, и ветер наполнил паруса",
        "Телескоп показал далёкие галактики и звёзды в тёмном небе",
        "Суп с луком и чесноком варят на медленном огне час",
    ),
    "中文": (
        "北京大学的学生在图书馆学习计算机科学和数学",
        "望远镜看到了遥远的星系和恒星",
        "船在清晨离开港口,风吹动了帆",
    ),
    "français": (
        "La grève à la gare de Besançon a commencé ce matin",
        "Le télescope a montré des étoiles et des galaxies lointaines",
        "La soupe à l'oignon cuit à feu doux pendant une heure",
    ),
    "العربية": (
        "غادرت السفينة الميناء في الصباح وملأت الريح الأشرعة",
        "أظهر التلسكوب مجرات ونجوما بعيدة في السماء المظلمة",
        "يطبخ الحساء مع البصل والثوم على نار هادئة",
    ),
    "english": (
        "The boat left the harbour in the morning and wind filled the sails",
        "The telescope showed distant galaxies and stars in the dark sky",
        "Onion soup simmers over a low flame for an hour with garlic",
    ),
}
TOPICS = ("sailing", "astronomy", "cooking")


def docstring_documents(count: int | None = None) -> list[Document]:
    """Return docstrings of Python and its packages, labelled by package, with kind, module, length and version."""
    documents = []
    for one in read_docstrings():
        package, module = one.labels
        name = str(one.id).rpartition(".")[2]
        kind = "class" if name[:1].isupper() else "module" if one.id == module else "function"
        since = SEE.search(one.text)
        metadata = {"kind": kind, "module": module, "lines": one.text.count("\n") + 1}
        metadata |= {"since": since[1]} if since and package == "python" else {}
        documents.append(Document(one.id, one.text, (package,), metadata))
    step = 1 if count is None else max(1, len(documents) // count)
    return documents[::step]


def documents_in_many_scripts() -> list[Document]:
    """Return short texts in five languages about three topics, with variations."""
    documents = []
    for language, texts in GREETINGS.items():
        for topic, text in zip(TOPICS, texts, strict=True):
            for part in range(1, 7):
                words = f"{text} {part}. {' '.join(f'{topic} {language}'.split() * (part % 3))}"
                documents.append(Document(f"{language}-{topic}-{part}", words, (topic,), {"language": language}))
    return documents
