"""Which words and sentences were seen before, in little room: a Bloom filter that travels with a summary.

A long request is folded once and then only its short form is known.  Whether a later request repeats wording of it can
still be told from this filter, which sits beside the summary's text in its marker.  Nothing depends on it: where a host
drops the marker, requests are compared with what is left of the earlier ones.
"""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable

from attrs import frozen

__all__ = ["Fingerprint"]

_SIZE = 1 << 11  # bytes; two bits an entry, so about 2,000 entries at one false answer in twenty
_LONGEST = 2 * _SIZE  # characters of one written out; what is longer was not written here, and is not unpacked
_FULL = _SIZE * 8 * 2 // 5  # bits set from which nothing more is added, lest everything looks known


@frozen
class Fingerprint:
    """A set of strings that answers `in`: never wrong for what was added, seldom for what was not."""

    bits: int = 0

    @classmethod
    def read(cls, text: object) -> Fingerprint:
        """Read back what `str()` gave; anything else is an empty one."""
        try:
            packed = b64decode(text, validate=True) if isinstance(text, str) and len(text) <= _LONGEST else b""
            data = zlib.decompressobj().decompress(packed, _SIZE + 1)
        except (binascii.Error, ValueError, zlib.error):
            data = b""
        return cls(int.from_bytes(data, "little") if len(data) == _SIZE else 0)

    def __str__(self) -> str:
        return b64encode(zlib.compress(self.bits.to_bytes(_SIZE, "little"), 1)).decode() if self.bits else ""

    def __contains__(self, item: str) -> bool:
        if not self.bits:
            return False
        one, two = _places(item)
        return bool(self.bits >> one & 1 and self.bits >> two & 1)

    def with_all(self, items: Iterable[str]) -> Fingerprint:
        """The same with more strings in it, unless it is full."""
        data = bytearray(self.bits.to_bytes(_SIZE, "little"))
        room = _FULL - self.bits.bit_count()
        for item in dict.fromkeys(items):
            if room <= 0:
                break
            for place in _places(item):
                byte, bit = place >> 3, 1 << (place & 7)
                room -= not data[byte] & bit
                data[byte] |= bit
        return Fingerprint(int.from_bytes(data, "little"))


def _places(item: str) -> tuple[int, int]:
    mixed = zlib.crc32(item.encode("utf-8", "surrogatepass"))
    return mixed % (_SIZE * 8), (mixed * 0x9E3779B1 >> 17) % (_SIZE * 8)
