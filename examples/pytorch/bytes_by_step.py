# SPDX-License-Identifier: Apache-2.0
"""The allocations of a training step, by part: the same bytes under PyTorch's allocators and under gpupool.

python bytes_by_step.py
"""

import side_by_side


def measure():
    side_by_side.use_allocator()
    import torch  # noqa: PLC0415

    rows = []

    def note(name):
        torch.cuda.synchronize()
        rows.append((name, torch.cuda.memory_allocated()))

    torch.cuda.init()
    note("nothing")
    scalars = []
    for number in (1, 2, 3):
        scalars.append(torch.tensor(float(number), device="cuda"))
        note(f"{number} scalars of 4 bytes")
    del scalars
    for inputs in (128, 129):
        layer = torch.nn.Linear(inputs, 1, bias=False, device="cuda")
        note(f"linear layer of {inputs} inputs")
        del layer

    # PyTorch keeps a workspace for cuBLAS from the first product on, through its allocator.
    torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")
    note("cuBLAS workspace")
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    given = torch.randn(256, 1024, device="cuda")
    note("+ model and batch")
    result = model(given)
    note("+ forward: activations")
    loss = result.square().mean()
    note("+ loss")
    loss.backward()
    note("+ backward: gradients")
    optimizer.step()
    note("+ Adam: two moments")
    optimizer.zero_grad()
    note("- gradients")
    del result, loss
    note("- activations")
    side_by_side.report(rows)


def main():
    found = side_by_side.run_all()
    names = [name for name, _ in found["gpupool"]]
    cells = [[f"{rows[i][1]:,}" for rows in found.values()] for i in range(len(names))]
    side_by_side.print_table("bytes allocated", list(zip(names, cells, strict=True)), list(found))
    for setting, rows in found.items():
        values = [value for _, value in rows]
        assert values[:6] == [0, 512, 1024, 1536, 512, 1024], setting
        assert rows == found["native"], f"{setting} differs from native"
    print("All three agree.")


if __name__ == "__main__":
    measure() if side_by_side.is_child() else main()
