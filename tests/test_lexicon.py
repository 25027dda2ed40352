"""Units and lexicons: text comes back from its tokens; learned units against counts by hand; saving and damage."""

import json
import random
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from searnn.data.lexicon import Lexicon
from searnn.data.units import join, split_chars, split_words, train_pieces
from searnn.types import SearnnError, Vocabulary

SENTENCES = ["the cat sat on the mat", "a dog ran after the cat", "cats and dogs run", "the caf\u00e9 is near"] * 30
PIECES = 22  # that any version of the trainer finds in them; their characters alone need 18
# Letters, accents that join, flags, joined emoji, Hangul in parts, and CR LF: where clusters are hard.
HARD = st.text(
    st.sampled_from("ae\u0301\u0308\u00e9 \r\n\u200d\U0001f469\U0001f4bb\U0001f1eb\U0001f1f7\u1112\u1161\u11ab\u0e33")
)
TEXTS = st.one_of(st.text(), HARD)


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


@given(TEXTS)
@settings(max_examples=300)
def test_characters_are_the_clusters_of_the_normal_form(text: str) -> None:
    assert split_chars(text) == regex.findall(r"\X", nfc(text))
    assert join(split_chars(text), "chars") == nfc(text)


@given(TEXTS)
@settings(max_examples=300)
def test_forms_take_characters_apart_and_put_them_together(text: str) -> None:
    assert split_chars(text, "nfd") == list(unicodedata.normalize("NFD", text))
    assert split_chars(text, "none") == regex.findall(r"\X", text)
    assert join(split_chars(text, "none"), "chars", "none") == text
    for form in ("nfd", "jamo"):
        assert join(split_chars(text, form), "chars", form) == nfc(text)
        assert [nfc(word) for word in split_words(text, form)] == nfc(text).split()


def test_korean_is_taken_apart_and_accents_are_not() -> None:
    text = "\ud55c\uad6d e\u0301\u3131"
    assert split_chars(text, "jamo") == [*"\u1112\u1161\u11ab\u1100\u116e\u11a8", " ", "\u00e9", "\u3131"]
    assert split_chars("\u11b8\ub2c8", "jamo") == ["\u11b8", "\u1102", "\u1175"]  # a lone final before a syllable
    assert split_chars(text, "nfd") == [*"\u1112\u1161\u11ab\u1100\u116e\u11a8", " ", "e", "\u0301", "\u3131"]
    lexicon = Lexicon.learn([text], "chars", form="jamo")
    assert lexicon.decode(lexicon.encode(text)) == nfc(text)
    assert lexicon.size == 1 + len(set(split_chars(text, "jamo")))


def test_letters_that_are_split_without_a_search_never_join() -> None:
    codes = [*range(0x300), *range(0x370, 0x483), *range(0x4E00, 0xA000)]
    letters = [chr(code) for code in codes if chr(code) != "\r"]
    draw = random.Random(0)
    for text in ("".join(letters), "".join(draw.choices(letters, k=100_000))):
        assert regex.findall(r"\X", text) == list(text)


def test_what_a_reader_sees_as_one() -> None:
    woman, flag = "\U0001f469\u200d\U0001f4bb", "\U0001f1eb\U0001f1f7"
    assert split_chars(f"e\u0301{woman}{flag}x\u0301") == ["\u00e9", woman, flag, "x\u0301"]
    assert split_chars("a\r\nb") == ["a", "\r\n", "b"]
    assert split_words("  e\u0301a\u3000b\tc ") == ["\u00e9a", "b", "c"]
    assert (join(["a", "b"], "chars"), join(["a", "b"], "words")) == ("ab", "a b")


@given(st.lists(TEXTS, min_size=1))
@settings(max_examples=200)
def test_text_comes_back_from_known_characters(texts: list[str]) -> None:
    if not any(texts):
        return
    lexicon = Lexicon.learn(texts, "chars")
    for text in texts:
        ids = lexicon.encode(text)
        assert lexicon.unknown not in ids
        assert lexicon.decode(ids) == nfc(text)
        assert lexicon.decode([lexicon.vocab.bos, *ids, lexicon.size, lexicon.vocab.pad]) == nfc(text)
        assert [lexicon.units[token] for token in ids] == regex.findall(r"\X", nfc(text))


@given(st.lists(st.text("ab<unk> \u00e9", max_size=30), min_size=1), st.integers(1, 3), st.integers(2, 6))
@settings(max_examples=200)
def test_learned_words_are_the_most_frequent(texts: list[str], min_count: int, max_size: int) -> None:
    counts = Counter(word for text in texts for word in nfc(text).split() if word != "<unk>")
    ranked = sorted((-times, word) for word, times in counts.items() if times >= min_count)
    if not ranked:
        with pytest.raises(SearnnError, match=f"no unit of words comes {min_count} times"):
            Lexicon.learn(texts, "words", min_count=min_count)
        return
    lexicon = Lexicon.learn(iter(texts), "words", min_count=min_count, max_size=max_size)
    assert lexicon.units == ("<unk>", *(word for _, word in ranked))[:max_size]
    assert lexicon == Lexicon.learn(texts[::-1], "words", min_count=min_count, max_size=max_size)
    for text in texts:
        shown = [word if word in lexicon.units else "<unk>" for word in nfc(text).split()]
        assert lexicon.decode(lexicon.encode(text)) == " ".join(shown)


def test_the_numbers_of_a_given_list() -> None:
    lexicon = Lexicon.of(["a", "b"], "chars")
    assert lexicon.units == ("<unk>", "a", "b")
    assert (lexicon.size, lexicon.unknown) == (3, 0)
    assert lexicon.vocab == Vocabulary(size=4, pad=4, bos=5, eos=3)
    assert lexicon.encode("abz") == [1, 2, 0]
    spelling = Lexicon.of("ab#", "chars", unknown="#")
    assert (spelling.units, spelling.unknown) == (("a", "b", "#"), 2)
    assert spelling.encode("b?#") == [1, 2, 2]
    assert spelling.decode([1, 2, 3, 4, 5, -1]) == "b#"
    labels = Lexicon.of(["O", "B-NP"], "words", unknown="O", ended=False)
    assert labels.vocab == Vocabulary(size=2, pad=2, bos=3)
    assert labels.encode("B-NP O what") == [1, 0, 0]


def test_what_makes_no_lexicon_is_refused() -> None:
    with pytest.raises(SearnnError, match="the unit 'b' is given twice"):
        Lexicon.of(["a", "b", "c", "b"], "words")
    for make in (Lexicon.of, Lexicon.learn):
        with pytest.raises(SearnnError, match="the level is 'bytes', expected one of chars, words, sentencepiece"):
            make(["a"], "bytes")
    with pytest.raises(SearnnError, match=r"use Lexicon\.learn or Lexicon\.load"):
        Lexicon.of(["a"], "sentencepiece")
    with pytest.raises(SearnnError, match="max_size is 1, expected at least 2"):
        Lexicon.learn(["a"], "words", max_size=1)
    with pytest.raises(SearnnError, match="min_count is 0"):
        Lexicon.learn(["a"], "words", min_count=0)
    with pytest.raises(SearnnError, match=r"no unit of chars comes 1 times or more: give more text$"):
        Lexicon.learn([], "chars")


def test_pieces_give_the_text_back(capfd: pytest.CaptureFixture[str]) -> None:
    lexicon = Lexicon.learn(SENTENCES, "sentencepiece", pieces=PIECES)
    assert (lexicon.size, lexicon.units[0], lexicon.unknown) == (PIECES, "<unk>", 0)
    assert lexicon.vocab == Vocabulary(size=PIECES + 1, pad=PIECES + 1, bos=PIECES + 2, eos=PIECES)
    for text in [*SENTENCES[:4], "dogs sat", "the cafe\u0301"]:
        ids = lexicon.encode(text)
        assert all(0 < token < PIECES for token in ids)
        assert lexicon.decode([*ids, PIECES, PIECES + 1]) == nfc(text)
        assert "".join(lexicon.units[token] for token in ids).replace("\u2581", " ").strip() == nfc(text)
    assert lexicon.decode(lexicon.encode("the \u4e00 cat")) == "the <unk> cat"
    assert capfd.readouterr() == ("", "")


def test_pieces_are_the_same_every_time() -> None:
    assert train_pieces(SENTENCES, PIECES) == train_pieces(iter(SENTENCES), PIECES)


def test_pieces_know_the_characters_of_long_lines() -> None:
    draw = random.Random(0)
    words = draw.choices([word for text in SENTENCES for word in text.split()], k=2000)
    for space in (" ", ""):
        text = space.join(["\u4e00", *words, "\u4e8c"])
        lexicon = Lexicon.learn([*SENTENCES, text], "sentencepiece", pieces=PIECES)
        assert {"\u4e00", "\u4e8c"} <= {piece.removeprefix("\u2581") for piece in lexicon.units}


def test_a_number_of_pieces_that_cannot_be(capfd: pytest.CaptureFixture[str]) -> None:
    most = Lexicon.learn(SENTENCES, "sentencepiece")  # 8000, and there are no more than these
    assert PIECES < most.size < 8000
    assert most.units == Lexicon.learn(SENTENCES, "sentencepiece", pieces=7000).units
    with pytest.raises(SearnnError, match=r"3 pieces were asked for, the characters of the text alone need \d+"):
        train_pieces(SENTENCES, 3)
    with pytest.raises(SearnnError, match="0 pieces were asked for, expected at least 1"):
        train_pieces(SENTENCES, 0)
    for nothing in ([], [" "]):
        with pytest.raises(SearnnError, match="no pieces can be learned"):
            train_pieces(nothing, 40)
    assert capfd.readouterr() == ("", "")


def test_an_error_of_the_texts_is_not_the_trainers() -> None:
    def texts():  # type: ignore[no-untyped-def]
        yield from SENTENCES
        raise SearnnError("train.gz is cut short")

    with pytest.raises(SearnnError, match=r"^train\.gz is cut short$"):
        train_pieces(texts(), 40)


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(SearnnError, match=r"pip install 'searnn\[sentencepiece\]'"):
        train_pieces(SENTENCES, PIECES)


def test_saved_lexicons_come_back(tmp_path: Path) -> None:
    for lexicon in (
        Lexicon.learn(['e\u0301 "\\ \u2028\U0001f600'], "chars"),
        Lexicon.of(["O", "B"], "words", unknown="B", ended=False),
        Lexicon.learn(SENTENCES, "sentencepiece", pieces=PIECES),
        Lexicon.learn(["\ud55c\uad6d e\u0301"], "chars", form="jamo"),
        Lexicon.learn(SENTENCES, "sentencepiece", pieces=PIECES, form="nfd"),
    ):
        lexicon.save(tmp_path, "source")
        again = Lexicon.load(tmp_path, "source")
        assert again == lexicon
        assert again.encode("the dog") == lexicon.encode("the dog")
        assert again.vocab == lexicon.vocab
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.json", "source.model"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[1]",
        b"7",
        b"[" * 100_000,
        b'{"level": "words"}',
        b'{"level": "words", "units": ["a", 1], "unknown": 0, "ended": true}',
        b'{"level": "words", "units": "ab", "unknown": 0, "ended": true}',
        b'{"level": "words", "units": ["a"], "unknown": false, "ended": true}',
        b'{"level": "words", "units": ["a"], "unknown": 0, "ended": 1}',
        b'{"level": ["words"], "units": ["a"], "unknown": 0, "ended": true}',
    ],
)
def test_a_damaged_lexicon_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "source.json").write_bytes(content)
    with pytest.raises(SearnnError, match=r"source\.json is damaged \(.*\): put back the file that was saved"):
        Lexicon.load(tmp_path, "source")


def test_a_lexicon_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    Lexicon.of("ab", "chars").save(tmp_path, "source")
    path = tmp_path / "source.json"
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(SearnnError, match="is damaged"):
            Lexicon.load(tmp_path, "source")


def test_files_that_are_missing_or_do_not_belong_together(tmp_path: Path) -> None:
    with pytest.raises(SearnnError, match=r"source\.json cannot be read: No such file"):
        Lexicon.load(tmp_path, "source")
    Lexicon.learn(SENTENCES, "sentencepiece", pieces=PIECES).save(tmp_path, "source")
    model, path = tmp_path / "source.model", tmp_path / "source.json"
    record = json.loads(path.read_text())
    record["units"][3], record["units"][4] = record["units"][4], record["units"][3]
    del record["checksum"]  # as if it had been made so
    content = path.read_bytes()
    path.write_text(json.dumps(record))
    with pytest.raises(SearnnError, match="do not belong together"):
        Lexicon.load(tmp_path, "source")
    path.write_bytes(content)
    model.write_bytes(b"no model at all")
    with pytest.raises(SearnnError, match="the model of pieces is damaged"):
        Lexicon.load(tmp_path, "source")
    model.unlink()
    with pytest.raises(SearnnError, match=r"source\.model cannot be read"):
        Lexicon.load(tmp_path, "source")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SearnnError, match=r"target\.json cannot be written: No such file or directory"):
        Lexicon.of("ab", "chars").save(tmp_path / "none", "target")
