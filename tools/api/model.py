# SPDX-License-Identifier: Apache-2.0
"""The declarations in the marked region of the header, and their layout on LP64 machines."""

from dataclasses import dataclass, field

# Types that every binding knows. int, long and bool are deliberately missing: their sizes differ.
BUILTIN_SIZES = {
    "char": 1,
    "int8_t": 1,
    "uint8_t": 1,
    "int16_t": 2,
    "uint16_t": 2,
    "int32_t": 4,
    "uint32_t": 4,
    "int64_t": 8,
    "uint64_t": 8,
    "size_t": 8,
    "uintptr_t": 8,
    "float": 4,
    "double": 8,
}
POINTER_SIZE = 8
ENUM_SIZE = 4


@dataclass(frozen=True)
class Type:
    """A C type as the header may use it: [const] name with some stars."""

    name: str
    is_const: bool = False
    stars: int = 0

    def __str__(self):
        return ("const " if self.is_const else "") + self.name + "*" * self.stars


@dataclass
class Item:
    """Any declaration. `group` is the banner comment above it."""

    name: str
    doc: str
    line: int
    group: str


@dataclass
class Define(Item):
    value: str

    @property
    def number(self):
        return int(self.value, 0)


@dataclass
class Opaque(Item):
    pass


@dataclass
class Alias(Item):
    type: Type


@dataclass
class Enumerator:
    name: str
    value: int
    doc: str


@dataclass
class Enum(Item):
    values: list = field(default_factory=list)


@dataclass
class Field:
    name: str
    type: Type
    length: int | None  # of an array; None: not an array
    doc: str
    line: int
    offset: int = 0
    size: int = 0


@dataclass
class Struct(Item):
    fields: list = field(default_factory=list)
    size: int = 0
    alignment: int = 1


@dataclass
class Parameter:
    name: str
    type: Type


@dataclass
class Callback(Item):
    returns: Type
    parameters: list


@dataclass
class Function(Item):
    returns: Type
    parameters: list
    since: str


@dataclass
class Api:
    """All items in the header's order."""

    items: list = field(default_factory=list)

    def of(self, kind):
        return [item for item in self.items if type(item) is kind]

    def find(self, name):
        return next((item for item in self.items if item.name == name), None)

    def groups(self):
        """The items under each banner, in order: pairs of a title and its items."""
        titles = dict.fromkeys(item.group for item in self.items)
        return [(title, [item for item in self.items if item.group == title]) for title in titles]

    def define(self, name):
        item = self.find(name)
        return item.number if type(item) is Define else None

    @property
    def version(self):
        return ".".join(str(self.define(f"GPUPOOL_VERSION_{part}")) for part in ("MAJOR", "MINOR", "PATCH"))

    def size_and_alignment(self, of_type):
        """The size of a value of this type on LP64 machines. Structs must already be laid out."""
        if of_type.stars:
            return POINTER_SIZE, POINTER_SIZE
        if of_type.name in BUILTIN_SIZES:
            size = BUILTIN_SIZES[of_type.name]
            return size, size
        item = self.find(of_type.name)
        if isinstance(item, Enum):
            return ENUM_SIZE, ENUM_SIZE
        if isinstance(item, Callback):
            return POINTER_SIZE, POINTER_SIZE
        if isinstance(item, Alias):
            return self.size_and_alignment(item.type)
        if isinstance(item, Struct):
            return item.size, item.alignment
        raise ValueError(f"{of_type} has no size")

    def lay_out(self, struct):
        """Sets the fields' offsets. Returns the padding holes as pairs of a field, or None, and bytes."""
        holes = []
        end = 0
        for member in struct.fields:
            size, alignment = self.size_and_alignment(member.type)
            member.offset = -(-end // alignment) * alignment
            member.size = size * (1 if member.length is None else member.length)
            if member.offset != end:
                holes.append((member, member.offset - end))
            end = member.offset + member.size
            struct.alignment = max(struct.alignment, alignment)
        struct.size = -(-end // struct.alignment) * struct.alignment
        if struct.size != end:
            holes.append((None, struct.size - end))
        return holes
