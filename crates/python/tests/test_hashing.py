"""A second implementation of docs/reference/hashing.md, written from the page alone.

The tests compare it with the tables of the page, and with the cells of filters that were saved.
"""

import json
import pathlib
import re

import pytest
import xxhash

from firstseen import Filter

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs/reference/hashing.md").read_text()
MASK = (1 << 64) - 1


def secret_of(material: bytes) -> bytes:
    return b"".join(xxhash.xxh3_128(material, seed=block).intdigest().to_bytes(16, "little") for block in range(12))


def rows(*titles: str) -> list[list[str]]:
    """The rows of the table of the page that has these titles."""
    title = "| " + " | ".join(titles) + " |"
    assert title in PAGE, title
    lines = PAGE[PAGE.index(title) :].split("\n")[2:]
    table = []
    for line in lines:
        if not line.startswith("|"):
            break
        table.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return table


def test_secrets_are_those_of_the_page():
    for material, first, last, *_ in rows("material", "first 16 bytes", "last 16 bytes", "digest of `event`: lo", "hi"):
        secret = secret_of(bytes.fromhex(material))
        assert (secret[:16].hex(), secret[-16:].hex()) == (first, last)


def word_keys() -> list[tuple[int, int]]:
    state, outputs = 0, []
    for _ in range(64):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        outputs.append(z ^ (z >> 31))
    return list(zip(outputs[::2], outputs[1::2], strict=True))


def word(lo: int, hi: int, index: int) -> int:
    a, b = word_keys()[index]
    product = (lo ^ a) * (hi ^ b)
    return (product & MASK) ^ (product >> 64)


def test_words_are_those_of_the_page():
    for lo, hi, index, expected in rows("lo", "hi", "i", "word"):
        assert f"{word(int(lo, 16), int(hi, 16), int(index)):016x}" == expected


def test_a_part_is_preceded_by_its_length():
    for parts, event, _, _ in rows("parts", "event", "lo", "hi"):
        values = [part.encode() for part in re.findall(r'"([^"]*)"', parts)]
        joined = b"".join(len(value).to_bytes(4, "little") + value for value in values)
        assert joined.hex() == event
        seen = Filter(capacity=1_000, fpr=1e-9, seed=7)
        assert seen.add(tuple(values)) and (joined in seen) == (len(values) > 1)


def saved(seen: Filter) -> tuple[dict, bytes]:
    """The header and the body of a saved filter (docs/reference/snapshot-format.md)."""
    data = seen.to_bytes()
    length = int.from_bytes(data[12:16], "little")
    header, place, body = json.loads(data[16 : 16 + length]), 24 + length, b""
    while size := int.from_bytes(data[place : place + 4], "little"):
        body += data[place + 4 : place + 4 + size]
        place += 12 + size
    return header, body


def reduce(value: int, below: int) -> int:
    return (value * below) >> 64


def positions(lo: int, hi: int, layout: str, cells: int, cell_bits: int, hashes: int) -> list[int]:
    if layout == "classic":
        return [reduce(word(lo, hi, index), cells) for index in range(hashes)]
    if layout == "partitioned":
        part = cells // hashes
        return [index * part + reduce(word(lo, hi, index), part) for index in range(hashes)]
    block_cells = 512 * int(layout.removeprefix("blocked ")) // cell_bits
    block = reduce(word(lo, hi, 0), cells // block_cells)
    offset_bits = block_cells.bit_length() - 1
    of_one_word = 64 // offset_bits
    offsets = [
        (word(lo, hi, 1 + index // of_one_word) >> (offset_bits * (index % of_one_word))) % block_cells
        for index in range(hashes)
    ]
    return [block * block_cells + offset for offset in offsets]


def test_positions_are_those_of_the_page():
    for lo, hi, layout, m, bits, k, expected in rows("lo", "hi", "layout", "m", "bits a cell", "k", "positions"):
        found = positions(int(lo, 16), int(hi, 16), layout, int(m), int(bits), int(k))
        assert found == [int(position) for position in expected.split()], layout


@pytest.mark.parametrize("settings", [{"capacity": 1_000}, {"capacity": 100_000, "fpr": 1e-4}])
def test_an_event_sets_the_cells_that_the_page_says(settings):
    """The digests are those of the page, because Python's xxhash has no XXH3-128 with a secret."""
    events = [row for row in rows("event", "lo", "hi") if not row[0].startswith("ramp")]
    assert len(events) > 3
    for event, lo, hi in events:
        seen = Filter(seed=7, kind="bloom", **settings)
        seen.add(event)
        header, body = saved(seen)
        geometry = header["definition"]["group"]["cells"]["geometry"]
        layout = f"blocked {geometry['layout']['blocked']['lines']}"
        cells = geometry["cells"]
        expected = positions(int(lo, 16), int(hi, 16), layout, cells, geometry["cell_bits"], geometry["hashes"])
        set_bytes = [(index, byte) for index, byte in enumerate(body[-cells // 8 :]) if byte]
        set_cells = {8 * index + bit for index, byte in set_bytes for bit in range(8) if byte >> bit & 1}
        assert set_cells == set(expected), event
