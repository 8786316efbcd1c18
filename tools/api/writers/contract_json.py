# SPDX-License-Identifier: Apache-2.0
"""The contract as data, for review and for tools in any language."""

import json

from ..frameworks import TORCH_FUNCTIONS
from ..model import Alias, Callback, Define, Enum, Function, Opaque, Struct


def contract_json(api):
    contract = {
        "comment": "Written by tools/apigen.py. Offsets and sizes are those of LP64 machines.",
        "header": "gpupool/gpupool.h",
        "version": api.version,
        "defines": [{**_item(define), "value": define.number} for define in api.of(Define)],
        "opaque": [_item(opaque) for opaque in api.of(Opaque)],
        "aliases": [{**_item(alias), "type": str(alias.type)} for alias in api.of(Alias)],
        "enums": [{**_item(enum), "values": [vars(value) for value in enum.values]} for enum in api.of(Enum)],
        "callbacks": [_callable(callback) for callback in api.of(Callback)],
        "structs": [_struct(struct) for struct in api.of(Struct)],
        "functions": [{**_callable(function), "since": function.since} for function in api.of(Function)],
        "torch_functions": [{"name": name, "since": since} for name, since in TORCH_FUNCTIONS.items()],
    }
    return json.dumps(contract, indent=1, ensure_ascii=False) + "\n"


def _item(item):
    return {"name": item.name, "group": item.group, "doc": item.doc}


def _callable(item):
    parameters = [{"name": parameter.name, "type": str(parameter.type)} for parameter in item.parameters]
    return {**_item(item), "return": str(item.returns), "params": parameters}


def _struct(struct):
    fields = []
    for member in struct.fields:
        entry = {"name": member.name, "type": str(member.type)}
        if member.length is not None:
            entry["length"] = member.length
        fields.append({**entry, "offset": member.offset, "size": member.size, "doc": member.doc})
    return {**_item(struct), "size": struct.size, "fields": fields}
