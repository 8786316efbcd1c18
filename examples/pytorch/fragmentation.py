# SPDX-License-Identifier: Apache-2.0
"""100 tensors of 10 MB, every other one freed, then one of 200 MB: half a gigabyte is free, but in pieces.

python fragmentation.py
"""

import side_by_side

MB = 1_000_000


def measure():
    side_by_side.use_allocator()
    import torch  # noqa: PLC0415

    def now():
        return {"allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved()}

    tensors = [torch.empty(10 * MB, dtype=torch.uint8, device="cuda") for _ in range(100)]
    full = now()
    del tensors[::2]
    half = now()
    large = torch.empty(200 * MB, dtype=torch.uint8, device="cuda")
    after = now()
    del large
    torch.cuda.empty_cache()
    side_by_side.report({"full": full, "half": half, "with 200 MB": after, "emptied": now()})


def main():
    found = side_by_side.run_all()
    rows = [
        (f"{moment}, {quantity}", [f"{result[moment][quantity] / MB:,.1f} MB" for result in found.values()])
        for moment in found["gpupool"]
        for quantity in ("allocated", "reserved")
    ]
    side_by_side.print_table("100 tensors of 10 MB, half of them freed, then one of 200 MB", rows, list(found))
    reserved = {setting: result["with 200 MB"]["reserved"] for setting, result in found.items()}
    ours = found["gpupool"]
    assert ours["with 200 MB"]["reserved"] == ours["full"]["reserved"], "gpupool made the 200 MB from the pieces"
    assert reserved["gpupool"] < min(reserved["native"], reserved["expandable"])
    assert ours["emptied"]["reserved"] <= min(result["emptied"]["reserved"] for result in found.values())
    print("gpupool reserves nothing more for the 200 MB.")


if __name__ == "__main__":
    measure() if side_by_side.is_child() else main()
