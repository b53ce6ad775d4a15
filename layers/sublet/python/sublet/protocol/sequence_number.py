"""What a sequence number says of its shard.

Kinesis documents only that numbers of one shard rise. Those that it assigns have 186 bits, of which the first 38 are
the same in all numbers of a shard, its starting one included: a version, and the second in which the shard was created.
The emulators do the same. Nothing that is lost or kept depends on this alone: a number of another form says nothing,
and one that contradicts a listing has the listing asked for again.
"""

from __future__ import annotations

_BITS, _AFTER_BIRTH = 186, 148


def birth_of(sequence_number: str) -> int | None:
    """When the number's shard was created: the same for all numbers of a shard, and larger for a later one. None if the
    number does not say.
    """
    if not (sequence_number.isascii() and sequence_number.isdecimal()):
        return None
    number = int(sequence_number)
    return number >> _AFTER_BIRTH if number.bit_length() == _BITS else None
