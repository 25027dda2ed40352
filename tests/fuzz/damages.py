"""Ways to damage what is read: bytes, the values inside JSON, TOML and YAML, tensors, arrays, pictures, and files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import random
import struct
import tomllib
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import tomli_w
import torch
import yaml
from PIL import Image

from searnn import SearnnError, sealed

Draw = random.Random
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 10**400, 0.5, -0.0, 1e-320,
    1e308, -1e308, float("nan"), float("inf"), -float("inf"), "", "x", "NaN", "1", "auto", "none", "linear:1:0:10",
    "top:15+all", "\0", "é", "\ud800", "a" * 5000, "/dev/zero", "../../x", "evil:Name", "a:b:c", "%s{0}", "[red]",
    [], [[]], ["x", 1], {}, {"a": {}},
)  # fmt: skip
PIECES = (
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r\n", b"\t", b"NaN", b"Infinity", b"-", b"1e999", b"9" * 5000,
    b"[" * 3000, b'{"a":' * 3000,
    b"null", b"true", b'"', b"'", b"[", b"}", b",", b":", b"=", b"#", b"&a [*a, *a]",
    b"!!python/object:os.system", b"\\u0000", b"\xc3", b"  ",
)  # fmt: skip
BOMB = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in zip("abcdefghijkl", "bcdefghijklm", strict=True)
)


def in_bytes(content: bytes, draw: Draw) -> bytes:
    """Bytes changed, put in, taken out, doubled or cut, once or a few times."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 5, 20))):
        at, size = draw.randrange(len(made) + 1), draw.choice((1, 2, 8, 100))
        kind = draw.randrange(6)
        if kind == 0 and made:
            made[at % len(made)] ^= 1 << draw.randrange(8)
        elif kind == 1:
            made[at:at] = draw.choice(PIECES)
        elif kind == 2:
            made[at : at + size] = draw.choice(PIECES)
        elif kind == 3:
            del made[at : at + size]
        elif kind == 4:
            made[at:at] = made[at : at + size]
        else:
            made[at : at + size] = draw.randbytes(size)
    return bytes(made[: draw.randrange(len(made) + 1)] if draw.random() < 0.1 else made)


def value_in(content: Any, draw: Draw) -> Any:
    """One of the values inside changed, taken away, doubled, or put elsewhere."""
    places: list[tuple[Any, Any]] = []

    def walk(held: Any) -> None:
        for key in list(held) if isinstance(held, dict) else range(len(held)) if isinstance(held, list) else ():
            places.append((held, key))
            walk(held[key])

    walk(content)
    if not places or draw.random() < 0.02:
        return draw.choice(VALUES)
    held, key = draw.choice(places)
    kind = draw.randrange(8)
    if kind == 0:
        del held[key]
    elif kind == 1 and isinstance(held, dict):
        held[draw.choice(("x", "", "step", "width", "é", "a" * 300))] = draw.choice(VALUES)
    elif kind == 2:
        other, name = draw.choice(places)
        held[key] = (
            json.loads(json.dumps(other[name], default=str)) if name in other or isinstance(other, list) else None
        )
    elif kind == 3 and isinstance(held[key], (int, float)) and abs(held[key]) < 1e300:
        held[key] = draw.choice((-held[key], held[key] + 1, held[key] * 1000, float(held[key]), str(held[key])))
    else:
        held[key] = draw.choice(VALUES)
    return content


def in_json(content: bytes, draw: Draw) -> bytes:
    """A value inside changed, the checksum taken away, made anew or left as it was; or nested deeply."""
    lines = content.split(b"\n") if content.count(b'"step"') > 1 and content.startswith(b'{"step"') else [content]
    at = draw.randrange(max(1, len(lines) - 1))
    record = json.loads(lines[at])
    digest = record.pop("checksum", None)
    made = value_in(record, draw)
    try:
        if isinstance(made, dict) and (kept := draw.randrange(3)):
            made = json.loads(sealed.text_of(made)) if kept == 1 else made
        elif isinstance(made, dict) and digest is not None:
            made["checksum"] = digest
    except ValueError:  # NaN cannot be sealed
        pass
    lines[at] = json.dumps(made).encode()
    if draw.random() < 0.03:
        depth = draw.choice((90, 400, 2000, 200_000))
        lines[at] = lines[at].replace(b"null", b"[" * depth + b"]" * depth, 1)
    return b"\n".join(lines)


def in_toml(content: bytes, draw: Draw) -> bytes:
    """A value inside changed."""
    try:
        return tomli_w.dumps(value_in(tomllib.loads(content.decode()), draw)).encode("utf-8", "surrogatepass")
    except (TypeError, AttributeError, ValueError, RecursionError):  # TOML has no null
        return in_bytes(content, draw)


def in_yaml(content: bytes, draw: Draw) -> bytes:
    """A value inside changed, or a small text that unfolds to a large one."""
    if draw.random() < 0.05:
        return f"{BOMB}task: *m\nmodel: {{width: *m}}\n".encode()
    try:
        return yaml.safe_dump(value_in(yaml.safe_load(content), draw)).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, ValueError, TypeError, AttributeError):
        return in_bytes(content, draw)


def in_packed(content: bytes, draw: Draw) -> bytes:
    """Lines changed, plain or packed, and the packed bytes changed too."""
    made = in_bytes(content, draw) if draw.random() < 0.8 else content
    made = draw.choice((bytes, gzip.compress, lzma.compress))(made)
    return in_bytes(made, draw) if draw.random() < 0.3 else made


def in_npz(content: bytes, draw: Draw) -> bytes:
    """An array of another type, shape or value, a header or a member that lies, or bytes of the archive changed."""
    with np.load(io.BytesIO(content)) as known:
        arrays: dict[str, Any] = {name: known[name] for name in known.files}
    name = draw.choice(list(arrays))
    kind = draw.randrange(7)
    if kind == 0:
        types = ("i1", "u1", "i8", "u8", "f2", "f4", "f8", "?", "c8", "S3", "U2", "M8[s]", ">i4", "O")
        with np.errstate(all="ignore"):
            arrays[name] = np.ones(arrays[name].shape, draw.choice(types))
    elif kind == 1:
        shape = draw.choice(((), (0,), (1,), (3, 0), (2, 2), (1, 128), (5, 16, 8), (1, 1, 1, 1)))
        arrays[name] = np.zeros(shape, arrays[name].dtype)
    elif kind == 2:
        flat = arrays[name].astype(draw.choice(("i8", "f8", arrays[name].dtype.str))).reshape(-1)
        wrong = (-1, 0, 2, 255, 2**40) if flat.dtype.itemsize == 8 else (0, 2, 255)
        flat[draw.randrange(len(flat))] = draw.choice(wrong)
        arrays[name] = flat.reshape(arrays[name].shape)
    elif kind == 3:
        del arrays[name]
    elif kind == 4:
        return in_bytes(content, draw)
    stream = io.BytesIO()
    with zipfile.ZipFile(
        stream, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    ) as archive:
        for each, array in arrays.items():
            member = io.BytesIO()
            np.save(member, array)
            data = in_bytes(member.getvalue(), draw) if kind == 5 and each == name else member.getvalue()
            if kind == 6 and each == name:
                data = data[:128].replace(b"(", b"(9" * draw.choice((1, 9)), 1) + data[128:]
            archive.writestr(f"{each}.npy", data)
    return stream.getvalue()


def in_png(content: bytes, draw: Draw) -> bytes:
    """A picture of another mode or size, a chunk changed with its check made to fit, or bytes changed."""
    kind = draw.randrange(4)
    if kind == 0:
        return in_bytes(content, draw)
    if kind == 1:
        mode = draw.choice(("1", "L", "LA", "P", "RGB", "RGBA", "I;16"))
        size = (draw.choice((1, 7, 8, 16, 24)), draw.choice((1, 15, 16, 32)))
        stream = io.BytesIO()
        Image.frombytes("L", size, draw.randbytes(size[0] * size[1])).convert(mode).save(stream, "PNG")
        return stream.getvalue()
    chunks, at = [], 8
    while at < len(content):
        size = int.from_bytes(content[at : at + 4])
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + size]))
        at += 12 + size
    number = draw.randrange(len(chunks))
    name, data = chunks[number]
    if kind == 2 and chunks[0][1]:
        wide, high = (draw.choice((0, 8, 16, 65_536, 2**31 - 1, 2**32 - 1)) for _ in range(2))
        chunks[0] = (b"IHDR", struct.pack(">II", wide, high) + chunks[0][1][8:])
    elif draw.random() < 0.3:
        text = b"k\0\0" + zlib.compress(bytes(draw.choice((10, 10**8))))
        chunks.insert(number, (draw.choice((b"zTXt", b"iCCP", b"iTXt")), text))
    else:
        chunks[number] = (name, in_bytes(data, draw))
    packed = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return content[:8] + b"".join(packed)


def in_tensors(content: bytes, draw: Draw) -> bytes:
    """A tensor of another type, shape, value or name, or bytes changed."""
    if draw.random() < 0.4:
        return in_bytes(content, draw)
    tensors = dict(safetensors.torch.load(content))
    name = draw.choice(sorted(tensors))
    tensor, kind = tensors[name], draw.randrange(5)
    if kind == 0:
        types = (torch.int8, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.bool)
        tensors[name] = tensor.nan_to_num().to(draw.choice(types))
    elif kind == 1:
        tensors[name] = draw.choice((tensor[None], tensor.reshape(-1)[:1].clone(), tensor.reshape(-1)[:0].clone()))
    elif kind == 2 and tensor.numel() and tensor.is_floating_point():
        tensor.view(-1)[draw.randrange(tensor.numel())] = draw.choice((float("nan"), float("inf"), -1e38, 0.0))
    elif kind == 3:
        tensors[draw.choice(("x", "", "model.x", "optimizer.x", "meter.x", "average.x"))] = tensors.pop(name)
    else:
        del tensors[name]
    return safetensors.torch.save(tensors)


def of_file(path: Path, draw: Draw, waits: bool) -> None:
    """Something else in the place of the file: nothing, a folder, a device, a pipe, a link, or far too much.

    Where one `waits` for what a file of the user's own has to say, it is nothing that never says anything.
    """
    kind = draw.randrange(7)
    silent = () if waits else ("/proc/kmsg",)
    path.unlink()
    if kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to(draw.choice(("/dev/zero", "/dev/null", "/dev/full", "/proc/self/mem", "nowhere", *silent)))
    elif kind == 3 and not waits:
        os.mkfifo(path)
    elif kind == 4:
        path.symlink_to(path.name)
    elif kind == 5:
        with path.open("wb") as file:
            file.truncate(draw.choice((1, 1 << 20, 1 << 20 if path.suffix == ".tsv" else 1 << 40)))  # data may be large
    elif kind == 6:
        path.write_bytes(b"")


BY_ENDING: dict[str, Callable[[bytes, Draw], bytes]] = {
    ".json": in_json, ".jsonl": in_json, ".toml": in_toml, ".yaml": in_yaml, ".tsv": in_packed, ".npz": in_npz,
    ".png": in_png,
    ".safetensors": in_tensors,
}  # fmt: skip


def damage(path: Path, draw: Draw, waits: bool = False) -> None:
    """Damage a file in a way of its kind; the checksums of tensors are made to fit, since else they tell at once."""
    if draw.random() < 0.08:
        of_file(path, draw, waits)
        return
    content = path.read_bytes()
    structured = BY_ENDING.get(path.suffix, in_bytes)
    made = (structured if draw.random() < 0.7 else in_bytes)(content, draw)
    path.write_bytes(made)
    if path.suffix == ".safetensors" and draw.random() < 0.9:
        state = path.with_name("state.json")
        with suppress(OSError, ValueError, KeyError, TypeError, SearnnError):  # it may be damaged itself
            fitting = {"sha256": hashlib.sha256(made).hexdigest(), "size": len(made)}
            record = {**json.loads(sealed.read_bytes(state)), **fitting}
            del record["checksum"]
            state.write_text(sealed.text_of(record))
