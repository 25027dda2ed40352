"""Bad input: one clear line, status 2, no traceback, and nothing lost or half written."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from searnn.cli import main
from searnn.tasks import letters
from searnn.tasks.lines import LONGEST
from searnn.training import checkpoints
from tiny import Refused, clone, copy_flags, ocr_flags, pairs_files, pairs_flags, tiny_letters

TASKS = "pairs, ocr, spelling, translation, chunking, g2p, copy"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each task."""
    folder = tmp_path_factory.mktemp("base")
    assert main(ocr_flags(tiny_letters(folder / "letters.npz"), folder / "ocr")) == 0
    assert main(copy_flags(folder / "copy")) == 0
    assert main([*pairs_flags(folder, folder / "pairs"), "--algorithm", "mle", "--max-length", "9"]) == 0
    return folder


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("trane ocr", "COMMAND must be one of train, eval, predict, data, got 'trane'; did you mean train?"),
        ("train ocrr", f"TASK must be one of {TASKS}, got 'ocrr'; did you mean ocr?"),
        ("train ocr --alhpa 3", "there is no flag --alhpa; did you mean --alpha?"),
        ("train ocr --alph 3", "there is no flag --alph; did you mean --alpha?"),
        ("train ocr extra", "there is no argument extra"),
        ("train ocr --loss lll", "--loss must be ll, kl, llcas, hinge, consistent, reverse-kl, js or l2"),
        ("train ocr --optimizer adan", "--optimizer must be sgd, adam or adamw, got 'adan'; did you mean adam?"),
        ("train ocr --k 0 --tokens top", "--k must be a whole number of at least 1, got '0'"),
        ("train ocr --alpha -1", "--alpha must be a number of at least 0, got '-1'"),
        ("train ocr --alpha=-0.5", "--alpha must be a number of at least 0, got '-0.5'"),
        ("train ocr --alpha nan", "--alpha must be a number of at least 0, got 'nan'"),
        ("train ocr --alpha inf", "--alpha must be a number of at least 0, got 'inf'"),
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


@pytest.mark.parametrize("inside", ["a file", "a run"])
def test_a_run_folder_that_exists(inside: str, base: Path, tmp_path: Path, refused: Refused):
    if inside == "a run":
        clone(base / "copy", tmp_path / "mine")
    else:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "notes.txt").write_text("dear to me")
    message = refused(*copy_flags(tmp_path / "mine"))
    assert "exists already: give another folder with --run, or go on with --resume" in message


def test_a_run_folder_that_is_a_file(tmp_path: Path, refused: Refused):
    (tmp_path / "mine").write_text("dear to me")
    assert "exists already" in refused(*copy_flags(tmp_path / "mine"))


def test_an_empty_run_folder_is_used(tmp_path: Path):
    (tmp_path / "mine").mkdir()
    assert main([*copy_flags(tmp_path / "mine"), "--steps", "1"]) == 0


@pytest.mark.parametrize("command", ["eval", "predict"])
def test_no_run(command: str, tmp_path: Path, refused: Refused):
    assert "there is no run folder none" in refused(command, "none")
    (tmp_path / "empty").mkdir()
    assert "is not the folder of a run: it has no config.toml" in refused(command, "empty")
    (tmp_path / "file").write_text("")
    assert "there is no run folder file" in refused(command, "file")


@pytest.mark.parametrize("command", ["eval", "predict"])
def test_a_run_folder_without_a_checkpoint(command: str, base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "copy", tmp_path / "run")
    for path in (run / "best").iterdir():
        path.unlink()
    assert "no checkpoint in run/best" in refused(command, "run")
    (run / "best").rmdir()
    assert "has no checkpoint 'best'" in refused(command, "run")


def test_resuming_without_a_checkpoint(base: Path, tmp_path: Path, refused: Refused):
    assert "there is no run folder none" in refused("train", "copy", "--run", "none", "--resume")
    (tmp_path / "empty").mkdir()
    assert "is not the folder of a run" in refused("train", "copy", "--run", "empty", "--resume")
    run = clone(base / "copy", tmp_path / "run")
    for path in (run / "last").iterdir():
        path.unlink()
    assert "has no checkpoint to resume from" in refused("train", "copy", "--run", "run", "--resume")
    (run / "last").rmdir()
    assert "has no checkpoint to resume from" in refused("train", "copy", "--run", "run", "--resume")
    (run / "config.toml").unlink()
    assert "it has no config.toml" in refused("train", "copy", "--run", "run", "--resume")


def test_a_run_killed_before_its_first_save_begins_again(base: Path, tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_bytes((base / "copy" / "config.toml").read_bytes())
    assert main(["train", "copy", "--run", str(tmp_path / "run"), "--resume"]) == 0
    ours, theirs = (checkpoints.load(place / "last")[0] for place in (tmp_path / "run", base / "copy"))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items() if name.startswith("model."))


def test_resuming_with_other_settings(base: Path, tmp_path: Path, refused: Refused):
    clone(base / "copy", tmp_path / "run")
    resume = ["train", "copy", "--run", "run", "--resume"]
    assert "another --alpha: it was 30.0, now it is 2.0" in refused(*resume, "--alpha", "2")
    assert "another --algorithm: it was searnn, now it is mle" in refused(*resume, "--algorithm", "mle")
    assert "another --temperature: it was unset, now it is 2.0" in refused(*resume, "--temperature", "2")
    (tmp_path / "other.toml").write_text("[model]\nwidth = 9\n")
    assert "another --width: it was 8, now it is 9" in refused(*resume, "--config", "other.toml")
    assert "another --name: it was copy, now it is ocr" in refused("train", "ocr", "--run", "run", "--resume")


@pytest.mark.parametrize("schedule", ["constant", "plateau", "linear", "cosine"])
def test_resuming_with_another_number_of_steps(schedule: str, tmp_path: Path, refused: Refused):
    """The steps made under a learning rate that falls to the last step would have been others."""
    assert main([*copy_flags(tmp_path / "run"), "--schedule", schedule]) == 0
    resume = ["train", "copy", "--run", "run", "--resume"]
    if schedule in ("constant", "plateau"):
        assert main([*resume, "--steps", "4"]) == 0
    else:
        message = refused(*resume, "--steps", "4")
        assert f"another --steps, which --schedule {schedule} runs over: it was 3, now it is 4" in message
        assert main([*resume, "--steps", "3", "--patience", "9"]) == 0


def test_a_checkpoint_of_another_model_size(base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "copy", tmp_path / "run")
    settings = (run / "config.toml").read_text()
    (run / "config.toml").write_text(settings.replace("width = 8", "width = 9"))
    assert "run/best is of another model" in refused("eval", "run")
    assert "run/last is of another model" in refused("train", "copy", "--run", "run", "--resume", "--steps", "5")


@pytest.mark.parametrize("part", ["best", "last"])
@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "gone"])
def test_a_damaged_checkpoint(part: str, damage: str, base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "copy", tmp_path / "run")
    path = next((run / part).glob("*.safetensors"))
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        flipped = content[:-1] + bytes([content[-1] ^ 1])
        path.write_bytes({"cut": content[:100], "empty": b"", "flipped": flipped}[damage])
    command = ["eval", "run"] if part == "best" else ["train", "copy", "--run", "run", "--resume", "--steps", "5"]
    message = refused(*command)
    assert ("is missing" if damage == "gone" else "is truncated or damaged") in message
    assert f"run/{part}" in message


@pytest.mark.parametrize("text", ["{", "{}", "[1]", ""])
def test_a_damaged_state(text: str, base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "copy", tmp_path / "run")
    (run / "best" / "state.json").write_text(text)
    assert "state.json is damaged" in refused("eval", "run")


def test_a_damaged_file_of_settings(base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "copy", tmp_path / "run")
    (run / "config.toml").write_text("[model\n")
    assert "run/config.toml is not a TOML file" in refused("eval", "run")
    (run / "config.toml").write_text('[task]\nname = "copi"\n')
    assert "no --task is called 'copi'; did you mean copy?" in refused("eval", "run")
    (run / "config.toml").write_text("")
    assert "no task is named" in refused("eval", "run")
    (run / "config.toml").write_text('[task]\nname = "copy"\n[loss]\nloss = "ll"\nalpha = 3.0\n')
    assert "run/config.toml: loss.alpha does not apply here" in refused("eval", "run")


def test_settings_of_a_file_are_checked_like_flags(tmp_path: Path, refused: Refused):
    for text, words in (
        ("[search]\nk = 0\n", "mine.toml: search.k must be a whole number of at least 1, got 0"),
        ("[loss]\nalpha = nan\n", "mine.toml: loss.alpha must be a number of at least 0, got nan"),
        ("[search]\nalpha = 1.0\n", "mine.toml: 'alpha' belongs in the section [loss], not in [search]"),
        ("[loss]\nalhpa = 1.0\n", "mine.toml: [loss] has no setting 'alhpa'; did you mean alpha?"),
        ('[loss]\nloss = "ll"\nalpha = 1.0\n', "mine.toml: loss.alpha does not apply here"),
        ('[task]\nname = "ocr"\n', "mine.toml is for the task ocr, the command says copy"),
    ):
        (tmp_path / "mine.toml").write_text(text)
        assert words in refused("train", "copy", "--config", "mine.toml")
    (tmp_path / "mine.toml").write_text("[loss]\nalpha = 1.0\n")
    assert "mine.toml: loss.alpha does not apply" in refused("train", "copy", "--config", "mine.toml", "--loss", "ll")


def test_no_permission_because_a_file_is_in_the_way(tmp_path: Path, refused: Refused):
    (tmp_path / "file").write_text("")
    assert "file/run: not a directory; choose a folder" in refused(*copy_flags(tmp_path / "file" / "run"))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_no_permission_to_write(tmp_path: Path, refused: Refused):
    (tmp_path / "mine").mkdir(mode=0o500)
    assert "Permission denied" in refused(*copy_flags(tmp_path / "mine" / "run"))


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
        (b"a \xff b", f"lines.txt, line 1 is bad: it is not UTF-8; {advice}"),
        (b"a\0b\n", f"lines.txt, line 1 is bad: it has a NUL; {advice}"),
        (b"a " * 10, f"line 1 is bad: it has 10 units, more than the 9 of --max-length; {advice}"),
        (b"", "lines.txt is empty: expected a line for each output"),
        (b"a" * (LONGEST + 1), f"lines.txt has a line of more than {LONGEST} bytes"),
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


def test_a_run_on_text_without_its_lexicons(base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "pairs", tmp_path / "run")
    (tmp_path / "lines.txt").write_text("a\n")
    (run / "text" / "target.json").write_text("{")
    assert "target.json" in refused("predict", "run", "--input", "lines.txt")
    (run / "text" / "target.json").unlink()
    assert "target.json" in refused("predict", "run", "--input", "lines.txt")
    clone(base / "pairs", tmp_path / "other")
    (tmp_path / "other" / "text" / "room.json").write_text("[]")
    assert "room.json is missing or damaged" in refused("predict", "other", "--input", "lines.txt")


def test_a_suffix_where_the_length_is_known(tmp_path: Path, refused: Refused):
    flags = ocr_flags(tiny_letters(tmp_path / "letters.npz"), tmp_path / "run")
    message = refused(*flags, "--oracle", "best-suffix")
    assert "--oracle best-suffix is for outputs that end by themselves, the task ocr knows their length" in message


def test_resuming_with_other_files(base: Path, tmp_path: Path, refused: Refused):
    clone(base / "pairs", tmp_path / "run")
    pairs_files(tmp_path)
    message = refused("train", "pairs", "--run", "run", "--resume", "--train", "train.tsv")
    assert "run cannot be resumed with another --train: it was ['" in message
    assert "another --model: it was gru" in refused("train", "pairs", "--run", "run", "--resume", "--model", "lstm")


def test_a_loss_that_is_not_finite_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = tmp_path / "run"
    diverging = ["--normalisation", "sum", "--optimizer", "sgd", "--lr", "1e38", "--clip", "none"]
    assert main([*copy_flags(run), *diverging, "--steps", "50"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "not finite" in err.splitlines()[-1]
    assert all(torch.isfinite(value).all() for value in checkpoints.load(run / "last")[0].values())
