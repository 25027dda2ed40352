"""Bad input: one clear line, status 2, no traceback, and nothing lost or half written."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import Refused, copy_flags, ocr_flags, pairs_flags, tiny_letters
from tiny_runs import finished_runs

from searnn.data import letters
from searnn.data.lines import LONGEST

TASKS = "pairs, ocr, spelling, translation, chunking, g2p, copy"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_runs(tmp_path_factory.mktemp("base"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("trane ocr", "must be one of train, eval, predict, headroom, report, explain, compare, reproduce, bench"),
        ("train ocrr", f"TASK must be one of {TASKS}, got 'ocrr'; did you mean ocr?"),
        ("train ocr --alhpa 3", "there is no flag --alhpa; did you mean --alpha?"),
        ("train ocr --alph 3", "there is no flag --alph; did you mean --alpha?"),
        ("train ocr extra", "there is no argument extra"),
        ("train ocr --loss lll", "--loss must be ll, kl, llcas, hinge, consistent, reverse-kl, js or l2"),
        ("train ocr --optimizer adan", "--optimizer must be sgd, adam or adamw, got 'adan'; did you mean adam?"),
        ("train ocr --k 0 --tokens top", "--k must be a whole number of at least 1, got '0'"),
        ("train ocr --alpha -1", "--alpha must be auto or a number of at least 0, got '-1'"),
        ("train ocr --alpha=-0.5", "--alpha must be auto or a number of at least 0, got '-0.5'"),
        ("train ocr --alpha nan", "--alpha must be auto or a number of at least 0, got 'nan'"),
        ("train ocr --alpha inf", "--alpha must be auto or a number of at least 0, got 'inf'"),
        ("train ocr --alpha", "--alpha: expected one argument"),
        ("train ocr --alpha 1 --loss ll", "--alpha does not apply here"),
        ("train ocr --bidirectional=3", "ignored explicit argument '3'"),
        ("train", "required: TASK"),
        ("eval", "required: RUN"),
        ("eval run --beam 0", "--beam: must be a whole number of at least 1, got '0'"),
        ("eval run --split tset", "must be one of valid, test, got 'tset'; did you mean test?"),
        ("data fetch", "ACTION must be one of list, get, check, got 'fetch'"),
        ("data get orc", "NAME must be one of asv, cmudict, conll2000, iwslt14, multi30k, ocr"),
        ("data get orc", "got 'orc'; did you mean ocr?"),
        ("train ocr --cell gru", "there is no flag --cell; did you mean --cells?"),
        ("train copy --model grru", "--model must be gru, lstm, transformer or conv-gru, or package.module:Name"),
        ("train copy --heads 2", "--heads does not apply here: it belongs to --model transformer"),
        ("train copy --model transformer --bidirectional", "--bidirectional does not apply here"),
        ("train copy --model conv-gru --no-bidirectional", "--bidirectional does not apply here"),
        ("train copy --model transformer --width 9 --heads 2", "width is 9, it must be a multiple of the number of"),
        ("train copy --model conv-gru --window 4", "window is 4, it must be an odd number"),
        ("train copy --cost chunk-f1", "--cost chunk-f1 judges tags of chunks, the task copy has none"),
        ("train copy --oracle chunk-f1", "--oracle chunk-f1 judges tags of chunks, the task copy has none"),
        ("train copy --metric error", "--metric does not apply here: it belongs to the task pairs, translation or g2p"),
        ("train pairs", "the task pairs needs --train: give one file with tabs, or two parallel ones"),
        ("train pairs --train a", "the task pairs needs --valid"),
        ("train pairs --train", "--train: expected at least one argument"),
        ("train pairs --train a --valid b --noise 0.5", "--noise does not apply here: it belongs to the task spelling"),
        ("train pairs --train a --valid b --pieces 9", "--pieces does not apply here"),
        ("train translation --train a --corpus multi30k", "--corpus does not apply here: it belongs to the public"),
        ("train translation --valid a", "--valid does not apply here: it belongs to files of your own"),
        ("train translation --corpus multi", "--corpus must be multi30k, iwslt14 or tatoeba, got 'multi'"),
        ("predict run --n-best 0", "--n-best: must be a whole number of at least 1, got '0'"),
        ("predict run --n-best 3 --beam 2", "--n-best is 3, but a beam of 2 finds no more: raise --beam"),
        ("train copy --resume", "--resume needs the folder of the run: give it with --run"),
        ("train copy --config none.toml", "there is no file none.toml"),
    ],
)
def test_unknown_and_wrong_words(arguments: str, words: str, refused: Refused):
    assert words in refused(*arguments.split())


def test_nothing_at_all(refused: Refused):
    assert "required: COMMAND" in refused()


def test_settings_of_a_file_are_checked_like_flags(tmp_path: Path, refused: Refused):
    for text, words in (
        ("[search]\nk = 0\n", "mine.toml: search.k must be a whole number of at least 1, got 0"),
        ("[loss]\nalpha = nan\n", "mine.toml: loss.alpha must be auto or a number of at least 0, got nan"),
        ("[search]\nalpha = 1.0\n", "mine.toml: 'alpha' belongs in the section [loss], not in [search]"),
        ("[loss]\nalhpa = 1.0\n", "mine.toml: [loss] has no setting 'alhpa'; did you mean alpha?"),
        ('[loss]\nloss = "ll"\nalpha = 1.0\n', "mine.toml: loss.alpha does not apply here"),
        ('[task]\nname = "ocr"\n', "mine.toml is for the task ocr, the command says copy"),
    ):
        (tmp_path / "mine.toml").write_text(text)
        assert words in refused("train", "copy", "--config", "mine.toml")
    (tmp_path / "mine.toml").write_text("[loss]\nalpha = 1.0\n")
    assert "mine.toml: loss.alpha does not apply" in refused("train", "copy", "--config", "mine.toml", "--loss", "ll")


@pytest.mark.parametrize("line", ["loss = {!r}", "alpha = {!r}", "{} = 1"])
def test_a_value_of_any_length_is_told_in_a_line_that_can_be_read(line: str, tmp_path: Path, refused: Refused):
    (tmp_path / "mine.toml").write_text("[loss]\n" + line.format("a" * 10_000))
    told = refused("train", "copy", "--config", "mine.toml")
    assert told.startswith("mine.toml: ")
    assert "aaa ... aaa" in told
    assert len(told) < 2100


def damaged_letters(path: Path, damage: str) -> Path:
    """A file of letters with something wrong."""
    tiny_letters(path)
    data = letters.read(path)
    arrays = {name: getattr(data, name) for name in letters.ARRAYS}
    if damage == "a letter is missing":
        arrays["pixels_packed"] = arrays["pixels_packed"][:-1]
    elif damage == "a label is missing":
        arrays["labels"] = arrays["labels"][:-1]
    elif damage == "labels":
        del arrays["labels"]
    np.savez(path, **arrays)
    if damage == "cut short":
        path.write_bytes(path.read_bytes()[:500])
    return path


@pytest.mark.parametrize("damage", ["a letter is missing", "a label is missing", "labels", "cut short"])
def test_a_damaged_file_of_letters(damage: str, tmp_path: Path, refused: Refused):
    path = damaged_letters(tmp_path / "letters.npz", damage)
    message = refused(*ocr_flags(path, tmp_path / "run"))
    assert "letters.npz" in message
    assert damage.removeprefix("a label ") in message


def test_letters_with_one_missing_in_the_published_form(tmp_path: Path, refused: Refused):
    pixels = ["1"] * 128
    following = [2, 3, -1]
    lines = ["\t".join([str(n + 1), "abc"[n], str(following[n]), "1", str(n + 1), "0", *pixels]) for n in range(3)]
    (tmp_path / "letter.data").write_text("\n".join([lines[0], lines[2]]) + "\n")
    assert "a letter is missing" in refused(*ocr_flags(tmp_path / "letter.data", tmp_path / "run"))


def test_no_data(tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SEARNN_DATA", str(tmp_path / "nowhere"))
    assert "which is no folder" in refused("train", "ocr", "--run", "run")
    assert "none.npz cannot be read" in refused("train", "ocr", "--data", "none.npz")
    assert "expected letters.npz" in refused("train", "ocr", "--data", "none.txt")


def test_a_batch_larger_than_the_data(tmp_path: Path, refused: Refused):
    message = refused(*copy_flags(tmp_path / "run"), "--batch-size", "21")
    assert "the batch size is 21, expected 1 to 20" in message


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has one")
def test_a_device_that_is_not_there(base: Path, tmp_path: Path, refused: Refused):
    message = refused(*copy_flags(tmp_path / "run"), "--device", "cuda")
    assert "the device is cuda, but this machine has 0 CUDA devices: use cpu or auto" in message
    assert "the device is cuda:7" in refused("eval", base / "copy", "--device", "cuda:7")
    assert "it must be auto, cpu, cuda or cuda:N" in refused("eval", base / "copy", "--device", "gpu")


def test_16_bit_arithmetic_on_a_cpu(tmp_path: Path, refused: Refused):
    assert "precision is 16-mixed" in refused(*copy_flags(tmp_path / "run"), "--precision", "16-mixed")


@pytest.mark.skipif(os.name != "posix", reason="has no such terminals")
def test_letters_are_not_read_from_a_terminal(base: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch):
    ours, theirs = os.openpty()
    with open(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        assert "give an .npz or a .png file with --input, or by < FILE" in refused("predict", base / "ocr")
    os.close(ours)
    monkeypatch.setattr(sys, "stdin", None)  # it was closed
    assert "give an .npz or a .png file with --input, or by < FILE" in refused("predict", base / "ocr")
    assert "the standard input is closed" in refused("predict", base / "copy")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the standard input is empty: give an .npz or a .png file with letters"),
        (b"a b c", "the standard input is neither an .npz nor a PNG"),
        (b"PK\x03\x04 and no more", "the standard input is damaged or cut short"),
        (b"\x89PNG and no more", "the standard input cannot be read as a PNG"),
    ],
    ids=["empty", "text", "npz", "png"],
)
def test_letters_from_the_standard_input(content: bytes, words: str, base: Path, refused: Refused, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert words in refused("predict", base / "ocr")


def test_inputs_to_predict(base: Path, tmp_path: Path, refused: Refused):
    assert "none.png is not there" in refused("predict", base / "ocr", "--input", "none.png")
    (tmp_path / "letters.png").write_bytes(b"no picture")
    assert "cannot be read as a PNG" in refused("predict", base / "ocr", "--input", "letters.png")
    np.savez(tmp_path / "pixels.npz", pixels=np.full((3, 16, 8), np.nan))
    assert "pixels must be numbers" in refused("predict", base / "ocr", "--input", "pixels.npz")
    long = "9" * 5000  # longer than Python makes into a number
    expected = "expected symbols from 0 to 2"
    second = f"line 2 is bad: {expected}"
    for text, words in (("0 1\n3\n", second), ("0 x", expected), (long, expected), ("", "is empty")):
        (tmp_path / "strings.txt").write_text(text)
        assert words in refused("predict", base / "copy", "--input", "strings.txt", answered=words == second)
    assert "none.txt: No such file or directory" in refused("predict", base / "copy", "--input", "none.txt")
    (tmp_path / "strings.txt").write_bytes(b"\xff\xfe")
    assert "strings.txt" in refused("predict", base / "copy", "--input", "strings.txt")


def test_lines_to_predict_from(base: Path, tmp_path: Path, refused: Refused):
    predict = ["predict", base / "pairs", "--input", "lines.txt"]
    advice = "mend it, or leave it out with --skip-bad-lines"
    for content, words in (
        (b"\na\n", f"lines.txt, line 1 is bad: it is empty; {advice}"),
        (b" \t \n", f"lines.txt, line 1 is bad: it is empty; {advice}"),
        (b"a\tb\n", f"lines.txt, line 1 is bad: it has a tab: give the source alone; {advice}"),
        (b"a \xff b", f"lines.txt, line 1 is bad: it is not UTF-8; {advice}"),
        (b"a\0b\n", f"lines.txt, line 1 is bad: it has a NUL; {advice}"),
        (b"a " * 10, f"line 1 is bad: it has 10 units, more than the 9 of --max-length; {advice}"),
        (b"", "lines.txt is empty: expected a line for each output"),
        (b"a" * (LONGEST + 1), f"lines.txt, line 1 is bad: it has more than {LONGEST} bytes; {advice}"),
    ):
        (tmp_path / "lines.txt").write_bytes(content)
        assert words in refused(*predict)
    assert "none.txt: No such file or directory" in refused("predict", base / "pairs", "--input", "none.txt")
    assert "Is a directory" in refused("predict", base / "pairs", "--input", tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a\tb\nno tab\n", "line 2"),
        (b"a\tb\n\tb\n", "line 2"),
        (b"a\tb\n\xff\tb\n", "line 2"),
        (b"a\tb\na\0\tb\n", "line 2"),
        (b"", "train.tsv"),
    ],
    ids=["no-tab", "empty-side", "not-utf-8", "nul", "empty"],
)
def test_pairs_that_are_bad(content: bytes, words: str, tmp_path: Path, refused: Refused):
    flags = pairs_flags(tmp_path, tmp_path / "run")
    (tmp_path / "train.tsv").write_bytes(content)
    message = refused(*flags)
    assert "train.tsv" in message
    assert words in message
    (tmp_path / "train.tsv").unlink()
    assert "train.tsv" in refused(*flags)


def test_files_that_do_not_belong_together(tmp_path: Path, refused: Refused):
    flags = pairs_flags(tmp_path, tmp_path / "run")
    (tmp_path / "short.txt").write_text("a\n")
    message = refused(*flags, "--train", tmp_path / "train.tsv", tmp_path / "short.txt")
    assert "train.tsv" in message
    assert "short.txt" in message
    three = [tmp_path / name for name in ("train.tsv", "valid.tsv", "test.tsv")]
    assert "3" in refused(*flags, "--train", *three)
    assert "--metric" in refused("train", "ocr", "--metric", "error") + refused(*flags, "--metric", "nowhere:f")


def test_a_suffix_where_the_length_is_known(tmp_path: Path, refused: Refused):
    flags = ocr_flags(tiny_letters(tmp_path / "letters.npz"), tmp_path / "run")
    message = refused(*flags, "--roll-out", "mixed", "--oracle", "best-suffix")
    assert "--oracle best-suffix is for outputs that end by themselves, the task ocr knows their length" in message
