"""Hash stores in flat arrays: the operations generated triggers call.

A store is a pool of rows (key words, then payload words) with stable slots, and indexes into it:

- `index`: open addressing over whole keys. An entry is (32 bits of hash, slot + 1); 0 is empty. Removal shifts entries
  back, so that there are no tombstones and probing stays short.
- for each slice (a part of the key): `heads`, the same structure over partial keys with the first slot of a chain, and
  `links`, the next and previous slot of each row; the first one, having none before it, holds minus the chain's length.
- `meta`: the words named below; then for each slice the length of its longest chain; then for each slice the number of
  its chains; then for each slice how many positions it has and which, `arity + 1` words each.

Capacity is reserved before it is used: the longest chain bounds how many rows a loop over a slice can add. A new row
may begin a chain in every slice, and removing a row need not end any chain, so removal frees no capacity; `reserve`
does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.control import FULL
from viewlet.runtime.jit import ENABLED, compiled, entry
from viewlet.runtime.state import chains, flags, hashes, numbers, words

POOL, INDEX, META, LIVE, HEADS, LINKS = range(6)
"""Arrays of a store, counted from its first one in the state. Each slice has a pair of `HEADS` and `LINKS`."""
SLICE_ARRAYS = 2
SIZE, FREE, ALIVE, SLICES, ROOM = range(5)
"""Words of `meta`: slots ever used, the head of the free list, rows alive, the number of slices, rows that may be
added."""
NO_SLOT, UNINDEXED = -1, -2
"""Instead of the head of a free list: there is none, or there is none and the rows are in no index."""
META_WORDS = 5
LONGEST_CHAIN = META_WORDS
"""The word of `meta` with the longest chain of the first slice; those of the other slices follow."""
NEXT, PREVIOUS = 0, 1
"""Words of a row of `links`."""
TOUCHED, TOUCHED_SLOTS = 0, 1
"""The words of `touched`: how many rows there are, their slots, and after room for all slots a mark for each."""

_SEED = np.uint64(0x243F6A8885A308D3)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_MIX2 = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


if ENABLED:

    @compiled
    def mix(h: Any, word: Any) -> Any:
        """One more word in a hash."""
        h = (h ^ np.uint64(word)) * _MIX
        return h ^ (h >> _SHIFT)

    @compiled
    def settle(h: Any) -> Any:
        """The 32 bits of a hash that are used."""
        return (h * _MIX2) >> _SHIFT

else:
    _WORD = (1 << 64) - 1

    def mix(h: Any, word: Any) -> Any:
        """One more word in a hash."""
        mixed = ((int(h) ^ (int(word) & _WORD)) * int(_MIX)) & _WORD
        return np.uint64(mixed ^ (mixed >> 32))

    def settle(h: Any) -> Any:
        """The 32 bits of a hash that are used."""
        return np.uint64(((int(h) * int(_MIX2)) & _WORD) >> 32)


@compiled
def hash_key(key: Any) -> Any:
    """32 well-mixed bits of a tuple of words."""
    h = _SEED
    for i in range(len(key)):
        h = mix(h, key[i])
    return settle(h)


@compiled
def find(pool: Any, index: Any, key: Any) -> Any:
    """The slot of a key, or -1."""
    h = hash_key(key)
    mask = np.uint64(index.shape[0] - 1)
    i = h & mask
    while True:
        entry = index[i]
        if entry == _ZERO:
            return -1
        if entry >> _SHIFT == h:
            slot = np.int64(entry & _LOW) - 1
            same = True
            for j in range(len(key)):
                same = same and pool[slot, j] == key[j]
            if same:
                return slot
        i = (i + _ONE) & mask


@compiled
def take_slot(pool: Any, meta: Any, live: Any) -> Any:
    """A slot for a new row, all zeros; -1 when there is no room."""
    if meta[ROOM] <= 0:
        return -1
    slot = meta[FREE]
    if slot >= 0:
        meta[FREE] = pool[slot, 0]
    else:
        slot = meta[SIZE]
        meta[SIZE] = slot + 1
    for j in range(pool.shape[1]):
        pool[slot, j] = 0
    live[slot] = 1
    meta[ALIVE] += 1
    meta[ROOM] -= 1
    return slot


@compiled
def hash_row(pool: Any, slot: Any, arity: Any) -> Any:
    """32 bits of hash of a row's key; the same as `hash_key` of its words."""
    h = _SEED
    for j in range(arity):
        h = mix(h, pool[slot, j])
    return settle(h)


@compiled
def find_row(pool: Any, index: Any, rows: Any, row: Any, arity: Any) -> Any:
    """The slot of the key of a row, or -1."""
    h, mask = hash_row(rows, row, arity), np.uint64(index.shape[0] - 1)
    i = h & mask
    while index[i] != _ZERO:
        if index[i] >> _SHIFT == h:
            slot = np.int64(index[i] & _LOW) - 1
            same = True
            for j in range(arity):
                same = same and pool[slot, j] == rows[row, j]
            if same:
                return slot
        i = (i + _ONE) & mask
    return -1


@compiled
def find_known(pool: Any, index: Any, known: Any, refs: Any, at: Any, length: Any) -> Any:
    """The slot that an index has for known values, which are the first words of its row; -1 if it has none."""
    h = _SEED
    for j in range(length):
        h = mix(h, known[refs[at + j]])
    h = settle(h)
    mask = np.uint64(index.shape[0] - 1)
    i = h & mask
    while True:
        entry = index[i]
        if entry == _ZERO:
            return -1
        if entry >> _SHIFT == h:
            slot = np.int64(entry & _LOW) - 1
            same = True
            for j in range(length):
                same = same and pool[slot, j] == known[refs[at + j]]
            if same:
                return slot
        i = (i + _ONE) & mask


@compiled
def place(index: Any, h: Any, slot: Any) -> None:
    """Adds an entry to an index."""
    mask = np.uint64(index.shape[0] - 1)
    i = h & mask
    while index[i] != _ZERO:
        i = (i + _ONE) & mask
    index[i] = (h << _SHIFT) | np.uint64(slot + 1)


@compiled
def position_of(index: Any, h: Any, slot: Any) -> Any:
    """Where an index holds a slot."""
    mask = np.uint64(index.shape[0] - 1)
    wanted = (h << _SHIFT) | np.uint64(slot + 1)
    i = h & mask
    while index[i] != wanted:
        i = (i + _ONE) & mask
    return i


@compiled
def displace(index: Any, hole: Any) -> None:
    """Empties a position and shifts back the entries that had to go past it."""
    mask = np.uint64(index.shape[0] - 1)
    i = hole
    while True:
        index[hole] = _ZERO
        while True:
            i = (i + _ONE) & mask
            entry = index[i]
            if entry == _ZERO:
                return
            home = (entry >> _SHIFT) & mask
            if ((i + mask + _ONE - home) & mask) >= ((i + mask + _ONE - hole) & mask):
                break
        index[hole] = entry
        hole = i


@compiled
def clear(pool: Any, index: Any, meta: Any, live: Any, arity: Any) -> None:
    """Empties a store without slices in time proportional to its rows."""
    mask = np.uint64(index.shape[0] - 1)
    for slot in range(meta[SIZE]):
        if live[slot]:
            i = hash_row(pool, slot, arity) & mask
            while index[i] != _ZERO:
                index[i] = _ZERO
                i = (i + _ONE) & mask
            live[slot] = 0
    meta[SIZE] = 0
    meta[FREE] = -1
    meta[ALIVE] = 0
    meta[ROOM] = pool.shape[0]


@compiled
def part_of(pool: Any, slot: Any, meta: Any, at: Any) -> Any:
    """32 bits of hash of a part of a row's key, its positions at meta[at]; the same as `hash_key` of that part."""
    h = _SEED
    for i in range(meta[at]):
        h = mix(h, pool[slot, meta[at + 1 + i]])
    return settle(h)


@compiled
def same_part(pool: Any, meta: Any, at: Any, slot: Any, other: Any) -> Any:
    """Two rows agree in the positions at meta[at]."""
    for i in range(meta[at]):
        position = meta[at + 1 + i]
        if pool[slot, position] != pool[other, position]:
            return False
    return True


@compiled
def find_head(pool: Any, heads: Any, positions: Any, part: Any) -> Any:
    """The first slot of the rows that have `part` at `positions`, or -1."""
    h = hash_key(part)
    mask = np.uint64(heads.shape[0] - 1)
    i = h & mask
    while True:
        entry = heads[i]
        if entry == _ZERO:
            return -1
        if entry >> _SHIFT == h:
            slot = np.int64(entry & _LOW) - 1
            same = True
            for j in range(len(part)):
                same = same and pool[slot, positions[j]] == part[j]
            if same:
                return slot
        i = (i + _ONE) & mask


@compiled
def link(pool: Any, heads: Any, links: Any, meta: Any, number: Any, at: Any, slot: Any) -> None:
    """Adds a row to the chain of its part."""
    h = part_of(pool, slot, meta, at)
    mask = np.uint64(heads.shape[0] - 1)
    i = h & mask
    length = 1
    while True:
        entry = heads[i]
        if entry == _ZERO:
            heads[i] = (h << _SHIFT) | np.uint64(slot + 1)
            links[slot, NEXT] = -1
            links[slot, PREVIOUS] = -1
            meta[LONGEST_CHAIN + meta[SLICES] + number] += 1
            break
        if entry >> _SHIFT == h:
            head = np.int64(entry & _LOW) - 1
            if same_part(pool, meta, at, head, slot):
                follower = links[head, NEXT]
                length = 1 - links[head, PREVIOUS]
                links[slot, NEXT] = follower
                links[slot, PREVIOUS] = head
                links[head, NEXT] = slot
                links[head, PREVIOUS] = -length
                if follower >= 0:
                    links[follower, PREVIOUS] = slot
                break
        i = (i + _ONE) & mask
    if length > meta[LONGEST_CHAIN + number]:
        meta[LONGEST_CHAIN + number] = length


@compiled
def head_of(pool: Any, heads: Any, meta: Any, at: Any, h: Any, slot: Any) -> Any:
    """The first row of the chain a row is in."""
    mask = np.uint64(heads.shape[0] - 1)
    i = h & mask
    while True:
        entry = heads[i]
        if entry >> _SHIFT == h:
            head = np.int64(entry & _LOW) - 1
            if same_part(pool, meta, at, head, slot):
                return head
        i = (i + _ONE) & mask


@compiled
def unlink(pool: Any, heads: Any, links: Any, meta: Any, number: Any, at: Any, slot: Any) -> None:
    """Takes a row out of the chain of its part."""
    follower, leader = links[slot, NEXT], links[slot, PREVIOUS]
    h = part_of(pool, slot, meta, at)
    if leader >= 0:
        links[leader, NEXT] = follower
        if follower >= 0:
            links[follower, PREVIOUS] = leader
        links[head_of(pool, heads, meta, at, h, slot), PREVIOUS] += 1
        return
    i = position_of(heads, h, slot)
    if follower >= 0:
        heads[i] = (h << _SHIFT) | np.uint64(follower + 1)
        links[follower, PREVIOUS] = leader + 1
    else:
        displace(heads, i)
        meta[LONGEST_CHAIN + meta[SLICES] + number] -= 1


@compiled
def enter_indexes(state: Any, first: Any, width: Any, arity: Any, slot: Any) -> None:
    """Puts a new row into the index and the slices of its store."""
    pool, meta = words(state, first, width), numbers(state, first + META)
    place(hashes(state, first + INDEX), hash_row(pool, slot, arity), slot)
    at = META_WORDS + 2 * meta[SLICES]
    for j in range(meta[SLICES]):
        heads, links = first + HEADS + SLICE_ARRAYS * j, first + LINKS + SLICE_ARRAYS * j
        link(pool, hashes(state, heads), chains(state, links), meta, j, at, slot)
        at += arity + 1


@compiled
def enter(state: Any, first: Any, width: Any, key: Any) -> Any:
    """The slot of a key in the store whose arrays begin at `first`, made if it is new; -1 if there is no room.

    Only the part that reads the key is compiled for every key length.
    """
    pool = words(state, first, width)
    slot = find(pool, hashes(state, first + INDEX), key)
    if slot < 0:
        slot = take_slot(pool, numbers(state, first + META), flags(state, first + LIVE))
        if slot >= 0:
            for j in range(len(key)):
                pool[slot, j] = key[j]
            enter_indexes(state, first, width, np.int64(len(key)), slot)
    return slot


@compiled
def leave(state: Any, first: Any, width: Any, arity: Any, slot: Any) -> None:
    """Takes a row out of a store and all its indexes; its slot is reused."""
    pool, meta, index = words(state, first, width), numbers(state, first + META), hashes(state, first + INDEX)
    at = META_WORDS + 2 * meta[SLICES]
    for j in range(meta[SLICES]):
        heads, links = first + HEADS + SLICE_ARRAYS * j, first + LINKS + SLICE_ARRAYS * j
        unlink(pool, hashes(state, heads), chains(state, links), meta, j, at, slot)
        at += arity + 1
    displace(index, position_of(index, hash_row(pool, slot, arity), slot))
    flags(state, first + LIVE)[slot] = 0
    pool[slot, 0] = meta[FREE]
    meta[FREE] = slot
    meta[ALIVE] -= 1


@entry
def rebuild(index: Any, larger: Any) -> None:
    """Moves the entries of an index to an empty one."""
    for i in range(index.shape[0]):
        if index[i] != _ZERO:
            place(larger, index[i] >> _SHIFT, np.int64(index[i] & _LOW) - 1)


@compiled
def count_of(pool: Any, index: Any, key: Any, offset: Any) -> Any:
    """The count in the row of a key, 0 if there is none."""
    slot = find(pool, index, key)
    return pool[slot, offset] if slot >= 0 else 0


@compiled
def add_count(state: Any, first: Any, width: Any, key: Any, number: Any, control: Any) -> None:
    """Adds to a store with one count per row; a row leaves when its count reaches 0."""
    slot = enter(state, first, width, key)
    if slot < 0:
        control[FULL] = 1
        return
    pool = words(state, first, width)
    pool[slot, len(key)] += number
    if pool[slot, len(key)] == 0:
        leave(state, first, width, np.int64(len(key)), slot)


@compiled
def touch(pool: Any, before: Any, touched: Any, slot: Any) -> None:
    """Notes a row as it is before its first change since the journal was read; no journal has no rows."""
    rows = before.shape[0]
    if rows == 0 or touched[TOUCHED_SLOTS + rows + slot] != 0:
        return
    touched[TOUCHED_SLOTS + rows + slot] = 1
    touched[TOUCHED] += 1
    touched[touched[TOUCHED]] = slot
    for j in range(pool.shape[1]):
        before[slot, j] = pool[slot, j]
