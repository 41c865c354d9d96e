"""Loaders on small files of the same format, and the sizes of the benchmark sets on the real archives."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import joblib
import numpy as np
import pytest
from scipy import io as scipy_io
from scipy import sparse

from fewbits import Dataset, load_dataset
from fewbits.benchmark.evaluate import describe
from fewbits.benchmark.results import load_results
from fewbits.data.datasets import SOURCES
from fewbits.data.datasets.term_tables import read_tmc
from fewbits.data.datasets.text_collections import read_arxiv, read_newsgroups, read_reuters
from fewbits.errors import DataError, MissingFileError, ParameterError

ROOT = Path(__file__).parents[2]
# protocol: train, validation, test, vocabulary, labels, chance level
PROTOCOL = {
    "ng20": (11_310, 3_775, 3_761, 7_164, 20, 0.0506),
    "reuters": (7_820, 996, 1_033, 10_000, 20, 0.2286),
    "tmc": (21_413, 3_562, 3_610, 500, 22, 0.4736),
    "arxiv": (105_537, 6_686, 19_989, 20_000, 40, 0.1089),
}


PROTOCOL_SETS = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "arxiv" else name for name in PROTOCOL]
)


@pytest.mark.xdist_group("archives")
@PROTOCOL_SETS
def test_a_benchmark_set_has_the_sizes_and_chance_level_of_the_protocol(
    benchmark_set: Callable[[str], Dataset], name: str
) -> None:
    facts = describe(benchmark_set(name))
    columns = ("train", "validation", "test", "vocabulary", "labels", "random_floor")
    assert tuple(facts[column] for column in columns) == PROTOCOL[name]


@pytest.mark.xdist_group("archives")
@PROTOCOL_SETS
def test_a_benchmark_set_has_the_fingerprint_of_the_committed_results(
    benchmark_set: Callable[[str], Dataset], name: str
) -> None:
    committed = {r.data_fingerprint for r in load_results(ROOT / "results") if r.dataset == name}
    assert committed == {benchmark_set(name).fingerprint}


@pytest.mark.xdist_group("archives")
def test_the_parts_of_a_set_are_disjoint_and_every_document_has_words_and_labels(
    benchmark_set: Callable[[str], Dataset],
) -> None:
    dataset = benchmark_set("reuters")
    ids = [id for part in ("train", "validation", "test") for id in dataset.part(part).ids]
    assert len(set(ids)) == len(ids)
    for part in (dataset.train, dataset.validation, dataset.test):
        assert part.texts is not None
        assert len(part.ids) == len(part.texts) == part.features.shape[0] == part.labels.shape[0]
        assert (np.diff(part.features.indptr) > 0).all()
        assert (np.diff(part.labels.indptr) > 0).all()
        assert np.allclose(sparse.linalg.norm(part.features, axis=1), 1, atol=1e-5)


def tar(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode("latin-1"))
            archive.addfile(member, io.BytesIO(content.encode("latin-1")))
    return path


def test_newsgroups_text_is_the_from_and_subject_headers_and_the_body(tmp_path: Path) -> None:
    message = "From: ann@example.org\nNewsgroups: sci.space\nSubject: Orbits\nLines: 2\n\nKeywords: kept\n\nsmörgås"
    archive = tar(tmp_path / "a.tar.gz", {"20news-bydate-train/sci.space/12": message})
    [document] = read_newsgroups(archive)
    assert document.id == "sci.space/12"
    assert document.labels == ("sci.space",)
    assert document.text == "From: ann@example.org\nSubject: Orbits\nKeywords: kept\n\nsmörgås"


def story(number: int, split: str, topics: str, text: str, has_topics: str = "YES") -> str:
    listed = "".join(f"<D>{topic}</D>" for topic in topics.split())
    head = f'<REUTERS TOPICS="{has_topics}" LEWISSPLIT="{split}" CGISPLIT="X" OLDID="1" NEWID="{number}">'
    return f"{head}<TOPICS>{listed}</TOPICS><TEXT>{text}</TEXT></REUTERS>\n"


def test_reuters_keeps_topics_of_both_parts_and_title_with_body_or_the_whole_text(tmp_path: Path) -> None:
    stories = [
        story(1, "TRAIN", "grain corn", "<TITLE>Corn &lt;up></TITLE><BODY>prices rise</BODY>"),
        story(2, "TEST", "grain", "unstructured words"),
        story(3, "TRAIN", "corn", "<TITLE>only in training</TITLE>"),
        story(4, "NOT-USED", "grain", "left out"),
        story(5, "TRAIN", "grain", "left out too", has_topics="NO"),
    ]
    archive = tar(tmp_path / "a.tar.gz", {"./reut2-000.sgm": "<!DOCTYPE lewis>\n" + "".join(stories), "README.txt": ""})
    found = {document.id: document for document in read_reuters(archive)}
    assert set(found) == {"1", "2"}
    assert found["1"].text == "Corn <up>\nprices rise"
    assert found["1"].labels == ("grain",)
    assert found["2"].text == "unstructured words"


def test_reuters_keeps_the_20_most_frequent_topics_and_ties_are_alphabetical(tmp_path: Path) -> None:
    names = [f"topic{letter}" for letter in "abcdefghijklmnopqrstu"]  # 21
    stories = [story(2 * n + t, s, name, "x") for n, name in enumerate(names) for t, s in enumerate(("TRAIN", "TEST"))]
    archive = tar(tmp_path / "a.tar.gz", {"reut2-000.sgm": "".join(stories)})
    assert {label for document in read_reuters(archive) for label in document.labels} == set(names[:20])


def test_tmc_attributes_named_in_the_label_file_are_labels_and_others_words(tmp_path: Path) -> None:
    head = "@relation x\n@attribute engine {0,1}\n@attribute wing {0,1}\n@attribute class01 {0,1}\n@data\n"
    labels = '<labels xmlns="http://mulan.sourceforge.net/labels"><label name="class01"></label></labels>'
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tmc2007-500-train.arff", head + "{0 1,2 1}\n{1 1}\n")
        archive.writestr("tmc2007-500-test.arff", head + "{}\n")
        archive.writestr("tmc2007-500.xml", labels)
    table = read_tmc(path)
    assert table.ids == ["train-0", "train-1", "test-0"]
    assert table.vocabulary == ["engine", "wing"]
    assert table.terms.toarray().tolist() == [[1, 0], [0, 1], [0, 0]]
    assert table.label_sets == [("class01",), (), ()]


def test_arxiv_joins_title_and_abstract_and_keeps_the_40_most_frequent_categories(tmp_path: Path) -> None:
    records = [{"id": f"{n}", "title": "T", "abstract": "A", "categories": f"c{n:02}"} for n in range(41)]
    records.append({"id": "41", "title": "T", "abstract": "A", "categories": "c40 c00"})
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, records)).encode()))
    found = {document.id: document for document in read_arxiv(path)}
    assert "39" not in found  # 39 categories tie for 38 places: the last by name is left out
    assert found["41"].labels == ("c40", "c00")
    assert found["40"].text == "T\nA"


def mat_file(path: Path, **changes: object) -> Path:
    content: dict[str, object] = {}
    for name, count in (("train", 4), ("cv", 2), ("test", 3)):
        content[name] = sparse.csr_matrix(7 * np.eye(count, 5))
        content[f"gnd_{name}"] = np.eye(count, 6, dtype=np.uint8)
    scipy_io.savemat(path, {name: value for name, value in {**content, **changes}.items() if value is not None})
    return path


def test_a_mat_file_keeps_its_own_parts_weights_and_labels(tmp_path: Path) -> None:
    dataset = load_dataset(mat_file(tmp_path / "ng20.tfidf.mat"))
    sizes = (len(dataset.train), len(dataset.validation), len(dataset.test))
    assert (dataset.name, sizes) == ("ng20.tfidf.mat", (4, 2, 3))
    assert dataset.train.features.toarray().tolist() == np.eye(4, 5).tolist()  # scaled to length 1
    assert dataset.test.labels.toarray().tolist() == np.eye(3, 4).tolist()  # only labels that occur
    assert dataset.train.texts is None


def test_a_mat_file_may_have_one_class_per_document(tmp_path: Path) -> None:
    classes = {
        "gnd_train": np.array([[1], [2], [1], [3]]),
        "gnd_cv": np.array([[1], [2]]),
        "gnd_test": np.array([[3]] * 3),
    }
    dataset = load_dataset(mat_file(tmp_path / "x.mat", **classes))
    assert dataset.label_names == ["1", "2", "3"]
    assert dataset.train.labels.toarray().argmax(axis=1).tolist() == [0, 1, 0, 2]


def test_a_mat_file_of_another_layout_raises_an_error_with_the_missing_variables(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lacks cv, gnd_cv \(allowed: train, cv, test, gnd_train"):
        load_dataset(mat_file(tmp_path / "x.mat", cv=None, gnd_cv=None))
    (tmp_path / "y.mat").write_text("plain")
    with pytest.raises(DataError, match=r"is not a readable .mat file"):
        load_dataset(tmp_path / "y.mat")
    with pytest.raises(MissingFileError, match=r"z.mat does not exist"):
        load_dataset(tmp_path / "z.mat")


def test_rcv1_is_read_from_scikit_learns_folder(tmp_path: Path) -> None:
    folder = tmp_path / "RCV1"
    folder.mkdir()
    count = 40
    joblib.dump(sparse.csr_matrix(np.eye(count, 50)), folder / "samples_py3.pkl")
    joblib.dump(np.arange(2286, 2286 + count, dtype=np.uint32), folder / "sample_id_py3.pkl")
    joblib.dump(
        sparse.csr_matrix(np.tile([[1, 0, 1], [0, 1, 0]], (count // 2, 1)), dtype=np.uint8),
        folder / "sample_topics_py3.pkl",
    )
    joblib.dump(np.array(["C11", "CCAT", "E11"], dtype=object), folder / "topics_names_py3.pkl")
    dataset = load_dataset("rcv1", path=tmp_path)
    assert len(dataset.train) + len(dataset.validation) + len(dataset.test) == count
    assert dataset.label_names == ["C11", "CCAT", "E11"]
    [home] = [part for part in (dataset.train, dataset.validation, dataset.test) if "2286" in part.ids]
    row = home.ids.index("2286")
    assert home.labels.toarray()[row].tolist() == [1, 0, 1]
    assert home.features.toarray()[row].tolist() == np.eye(1, 50)[0].tolist()


@pytest.mark.filterwarnings("ignore:Retry downloading")
def test_rcv1_without_a_network_raises_an_error_with_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEWBITS_DATA")
    with pytest.raises(MissingFileError, match=r"RCV1 is not in .*fewbits and cannot be downloaded"):
        load_dataset("rcv1")


def test_an_archive_of_another_layout_raises_an_error_with_what_is_missing(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("tmc2007-500-train.arff", "")
    with pytest.raises(DataError, match=r"lacks tmc2007-500-test.arff, tmc2007-500.xml"):
        load_dataset("tmc", path=tmp_path / "a.zip")
    with pytest.raises(DataError, match=r"contains README.*allowed: messages in a folder per group"):
        load_dataset("ng20", path=tar(tmp_path / "a.tar.gz", {"README": "x"}))
    with pytest.raises(DataError, match=r"contains no documents of reuters"):
        load_dataset("reuters", path=tar(tmp_path / "b.tar.gz", {"reut2-000.sgm": "x"}))
    with pytest.raises(MissingFileError, match=r"c.zip does not exist"):
        load_dataset("tmc", path=tmp_path / "c.zip")


def test_rcv1_is_located_in_the_folder_of_the_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEWBITS_DATA", str(tmp_path))
    assert SOURCES["rcv1"].locate() == tmp_path


def test_an_unknown_data_set_raises_an_error_with_the_known_ones() -> None:
    with pytest.raises(
        ParameterError, match=r"unknown data set \(allowed: ng20, reuters, tmc, arxiv, rcv1, docstrings"
    ):
        load_dataset("imagenet")


def test_an_archive_with_other_contents_raises_an_error_unless_given_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tar(tmp_path / "20news-bydate.tar.gz", {"train/sci.space/12": "Subject: Orbits\n\norbits planets"})
    monkeypatch.setenv("FEWBITS_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"does not contain the ng20 documents of the protocol.*download it again"):
        load_dataset("ng20")
    assert load_dataset("ng20", path=archive).vocabulary == ["orbits", "planets", "subject"]


def test_a_truncated_archive_raises_an_error_with_its_name(tmp_path: Path) -> None:
    archive = tar(
        tmp_path / "a.tar.gz", {f"train/sci.space/{n}": "Subject: Orbits\n\n" + "orbits " * n for n in range(99)}
    )
    archive.write_bytes(archive.read_bytes()[:400])
    with pytest.raises(DataError, match=r"a.tar.gz is not a complete archive.*download it again"):
        load_dataset("ng20", path=archive)


def test_the_fingerprint_depends_on_the_documents_and_not_on_their_packing(tmp_path: Path) -> None:
    files = {f"x/g/{n}": f"Subject: a\n\nword{chr(97 + n)} other" for n in range(20)}
    one = load_dataset("ng20", path=tar(tmp_path / "1.tar.gz", files))
    two = load_dataset("ng20", path=tar(tmp_path / "2.tar.gz", {f"./{name}": text for name, text in files.items()}))
    three = load_dataset("ng20", path=tar(tmp_path / "3.tar.gz", {**files, "x/g/3": "Subject: a\n\nchanged"}))
    assert one.fingerprint == two.fingerprint != three.fingerprint
