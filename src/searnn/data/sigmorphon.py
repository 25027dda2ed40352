"""SIGMORPHON 2021, task 1: words of 21 languages and how they are spoken; which files there are, and where from."""

from __future__ import annotations

# At this commit; the second address is of the files as they are now. The content is held against the SHA-256.
COMMIT = "821bcdece5a47820872215969f275004b0abe80c"
PLACE = "https://raw.githubusercontent.com/sigmorphon/2021-task1/{}/data/{}"
# Name, bytes, SHA-256. Ten languages and English have no test words here.
FILES = """
high/eng_us_dev 107622 dcce99504c5f8a00ebf13499aa4d4c2b7fc37614b65127c98aa871855e77080e
high/eng_us_train 855780 bbe76f57ee799ef9094b1ed1fecf8861e754ac57c6aa4db7d5b18892c5401f7f
low/ady_dev 3362 66f2b69326269a45c6d4189833822db281afc6ceaf15e275ed693a08513a9421
low/ady_test 3277 3f20b99bab05fabc1bbdddce805cf99701b0bf05adfbc84544aae7c8faf48aeb
low/ady_train 25950 1a83848ddbe34f7883503bc2e201f6999e695a9dc07fdded04fabe0a445ca881
low/gre_dev 2822 998f251e717e046b7b24e7b447390ef56dbfc960bc68fcfc86ae24da1743077d
low/gre_test 2799 94b7baf85a08f023e03c0fa7542b5b5add8e34005d51563694327100d1652d25
low/gre_train 23465 54523d43c445515c0e06d48e4150f5b40ad30da1a53243256e39d41d018a9ce4
low/ice_dev 2118 50ce56fdb4c244fa6e47cd4e9a14e9833b8d359a7dc92a0200489c5f9d514c17
low/ice_test 2233 7ce4b846908bdb80f01ec063ab1ad2175a37ff10092612e011a5427c4dbb6e29
low/ice_train 17384 0b2fc9e25ca4282887215f5206f55f753fd3fc79952cfd272db261a25f83ac9f
low/ita_dev 2311 de30becaa09b9121730a07faa80feb08c864405556ab34938d9aaf89f678d521
low/ita_test 2153 66f7049496757be938615dddbfd6fd5c846728c477888900fc20bfcc9084bd0c
low/ita_train 17534 e12573b2f640aa799b5f87ba265a61f62a6212217170aa915875d651a3e0ea1b
low/khm_dev 3052 a35bdad9205675bbea8fd222806ae491d2ff539eb76fb9580bc574492135dfe0
low/khm_test 3019 85c9d687044911f4cddc5566bebbd5a5d6250d5ebceca8c08605e295dc6102ab
low/khm_train 24517 9b8edb99987d15b36c6105b8f9cb35ae641480ea1bf38905f6ba33847fa2dcbc
low/lav_dev 2242 f444520b5172d43a4398369936cc8f15c21ee17fa52aadb5521856a91455980b
low/lav_train 17537 87bf348b77014eb857826065f7727905391bc74f082a1aa7609c42c7c517982e
low/mlt_latn_dev 2078 a507b92079a0f52d6e001c5717be200f914a41f7d828875c52a8f477c5d74e67
low/mlt_latn_train 16334 1f9469970ae0761d626632c0c6eababd57be7a128baa95cae5e70f7fd15e3467
low/rum_dev 2061 ae0dace00c5882dbf5b397dda5b394945a409abff2c1311b0c8b8c7b5bcae76e
low/rum_train 16199 0cd55921d7ec6aaa79591fcc474d16c2c3df472676d6affa15d18d52c341739f
low/slv_dev 2338 f697ae695c71164df293db4ce58e4cc22e80f7ca0aa6d78ae56a9278b256cc3a
low/slv_train 18520 d85d5abbdbe5188166a0252b4b8c74fdb534a0ffe81e23b97bb3fb33e962bd61
low/wel_sw_dev 1854 577d7cdf1a6594d23df7c12c2300229f2a86af7e5ef585079d5124d6331a9f60
low/wel_sw_train 15866 93d76d1747f74434a6b208d0d36e1b7231c6de3f92c9b805ebebf07686f76b5e
medium/arm_e_dev 34999 151b26dd407836cbaea4110018a2090e6d627cb98ca5febcfe29bb48bec3bff1
medium/arm_e_test 34311 4b2301ef999b9f63d71b05825002a015ef4ce62b1dd56de924c78f237ebb5545
medium/arm_e_train 273177 2cfc0ded02151377cb6fa25cae112acb7f3c0d1d92d5479de19799687b0be8d2
medium/bul_dev 41920 f503124b83dff9ff2f248f39374bf7b8f93a915dafdee6c72f15f7bdf4317d01
medium/bul_train 332375 a0ad49ef705339bf7d7a301cf97cd33a5ab72743b4367914abe42c18ee835170
medium/dut_dev 26360 77a896e9510b6ebc610a9bc6a1bf32a06bc85489e9056caf77d996bb107318aa
medium/dut_test 25992 eb31a13e8f797f1bda23194689805c8ea0cd6960e86f739d1e818f1815c287ae
medium/dut_train 211071 08d327412cbf809a4cf894e015975d91588a38e8e05fb86450f42a4a38e534b8
medium/fre_dev 22895 3b42f14f318367dd94faa6d59e8fafabd845a3998800b6ce71a7c67e999490da
medium/fre_test 23087 6202c2b7b8d5fbd76a4d40373f9564a9946671dab617438b534bd47c64071c92
medium/fre_train 182424 e9de4f5125d2478e50506c5ed278f69d5fb17d8d213f99f845305c24e28a55c2
medium/geo_dev 44776 4a4127d579219a6a7a2079fef950c94543aa022ede1847b753c9e305c1f9e10f
medium/geo_train 357273 0369d37ddd994ad7366f3c0bfd314d80f2e80f1795c5b461e76344f188944635
medium/hbs_latn_dev 27164 38b3ab21d522b0553e97d62784287cf62e29460360bec8f20b32bbb47b2a7cbc
medium/hbs_latn_train 216303 b4bf802445c2de3db73e20c2d6c51868e6c66ddb7abc64f5398469cf5c54e9c5
medium/hun_dev 28113 a2892c27cf6d3075aacdd195c02bf34f8b509bcc08bb230b758d7978a7d920d0
medium/hun_test 28355 e9ec4ba9c89808864e6518e529e21cda6fe51287ad7a5a1fc23668cc64f31159
medium/hun_train 226536 cd6bea5ae552bc73a63abf459af5f41d27c1c276b4a15de49f1fffd23ee4d363
medium/jpn_hira_dev 38506 f3f2f36db83b48032767dcf49c536a0e50fa076e48865fa75638262818c4ef70
medium/jpn_hira_train 306757 caf113a16654dc778352c8c95867922fb0aa994c484b318f5aea66dc561ea85a
medium/kor_dev 31598 b1d22601f9b485f9b693dd82d832cb18695edb8a6a6ec6353d16ad729409b839
medium/kor_test 30798 341c4691b635f300822f89334d774023702eb64bf3d827562da25862de699ff2
medium/kor_train 248512 0623be3d687864b534043585e50b1ac238b7d5564f1e7450b40be3df7329ff7c
medium/vie_hanoi_dev 35905 5d56e7d14dc4d90758d2d4ba0c74f3531b4e05b5344346786e2a1b1b447093ca
medium/vie_hanoi_train 281678 8f2a60af78668db3c2c4d201938a822d7fc7808ffd64b12504723f3ff64fea4c
"""


def files() -> dict[str, tuple[int, str, tuple[str, ...]]]:
    """The size, the SHA-256 and the addresses of every file, by name."""
    rows = (line.split() for line in FILES.split("\n") if line)
    named = {f"{name}.tsv": (int(size), sha256) for name, size, sha256 in rows}
    return {
        name: (size, sha256, tuple(PLACE.format(version, name) for version in (COMMIT, "main")))
        for name, (size, sha256) in named.items()
    }


def _languages() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name in files():
        language, _, part = name.partition("/")[2].removesuffix(".tsv").rpartition("_")
        found.setdefault(language, {})[{"dev": "valid"}.get(part, part)] = name
    return found


LANGUAGES = _languages()  # the file of each split, by language
