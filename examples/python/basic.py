# SPDX-License-Identifier: Apache-2.0
"""A pool, buffers that free themselves, and what the pool reports about itself."""

import gpupool


def main() -> None:
    with gpupool.Pool(fraction=0.5) as pool:
        info = pool.device_info()
        print(f"{info.name}: {info.total_bytes >> 30} GiB, of which this pool may take half")

        stream = pool.stream()
        with pool.alloc(1 << 20, stream) as buffer:
            buffer.copy_from_host(b"written by the host")
            assert buffer.copy_to_host(size=19) == b"written by the host"
            print(buffer, f"{pool.memory_allocated()} bytes allocated, {pool.memory_reserved()} reserved")

        # Later work of the same stream gets the same memory at once.
        again = pool.alloc(1 << 20, stream)
        print(again)

        try:
            pool.malloc(info.total_bytes)
        except gpupool.OverLimitError as error:
            print(f"refused: {error}")

        again.free()
        print(pool.memory_summary(abbreviated=True))


if __name__ == "__main__":
    main()
