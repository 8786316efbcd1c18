# SPDX-License-Identifier: Apache-2.0
"""The workloads of workloads.py: each function builds one and returns the number of steps, and a function that runs a
step by its number. Weights are random, so that nothing is downloaded; they need transformers, torchvision and
torch-geometric."""

import gc


def clear(torch):
    """Drops what the last workload left behind."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def on_gpu(torch, build):
    """Creates weights on the device that uses them, which is faster."""
    with torch.device("cuda"):
        return build().cuda()


def lm_train(torch):
    """GPT-2 small in bf16 with AdamW; length and batch change each step."""
    from transformers import GPT2Config, GPT2LMHeadModel  # noqa: PLC0415

    model = on_gpu(torch, lambda: GPT2LMHeadModel(GPT2Config())).bfloat16()
    return 30, trainer(torch, model, lambda pick: (pick(2, 9), pick(128, 1024)), model.config.vocab_size)


def lm_checkpoint(torch):
    """GPT-2 medium with activation checkpointing; lengths of up to 2,048."""
    from transformers import GPT2Config, GPT2LMHeadModel  # noqa: PLC0415

    config = GPT2Config(n_embd=1024, n_layer=24, n_head=16, n_positions=2048, use_cache=False)
    model = on_gpu(torch, lambda: GPT2LMHeadModel(config)).bfloat16()
    model.gradient_checkpointing_enable()
    model.train()
    return 15, trainer(torch, model, lambda pick: (pick(2, 7), pick(256, 2049)), config.vocab_size)


def trainer(torch, model, shape, words):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    generator = torch.Generator().manual_seed(3)

    def pick(low, high):
        return int(torch.randint(low, high, (), generator=generator))

    def step(_):
        tokens = torch.randint(words, shape(pick), generator=generator).cuda()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def lm_serve(torch):
    """A Llama-shaped model generates: mixed batches, a key-value cache that grows by a token at a time."""
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM  # noqa: PLC0415

    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=12,
        num_attention_heads=16,
        num_key_value_heads=4,
        max_position_embeddings=2048,
    )
    model = on_gpu(torch, lambda: LlamaForCausalLM(config)).bfloat16().eval()
    generator = torch.Generator().manual_seed(3)

    def step(_):
        rows, length = (int(torch.randint(low, high, (), generator=generator)) for low, high in ((1, 17), (32, 700)))
        tokens = torch.randint(config.vocab_size, (rows, length), generator=generator).cuda()
        cache = DynamicCache()
        with torch.inference_mode():
            for _ in range(24):
                scores = model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
                tokens = scores[:, -1].argmax(-1, keepdim=True)
        return tokens.sum()

    return 9, step


def detect(torch):
    """Faster R-CNN on images of 320 to 900 pixels."""
    from torchvision.models.detection import fasterrcnn_resnet50_fpn  # noqa: PLC0415

    options = {"weights": None, "weights_backbone": None, "num_classes": 20, "min_size": 320, "max_size": 900}
    model = on_gpu(torch, lambda: fasterrcnn_resnet50_fpn(**options)).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(3)

    def step(_):
        sides = torch.randint(320, 901, (4, 2), generator=generator).tolist()
        images = [torch.rand(3, *side, device="cuda") for side in sides]
        corners = [torch.rand(6, 4, generator=generator) * 150 for _ in sides]
        boxes = [torch.cat((box[:, :2], box[:, :2] + box[:, 2:] + 10), 1).cuda() for box in corners]
        targets = [{"boxes": box, "labels": torch.randint(1, 20, (6,), generator=generator).cuda()} for box in boxes]
        loss = sum(model(images, targets).values())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return 20, step


def prefetch(torch):
    """Convolutions, with batches that four other streams load and convert to floating point."""
    from torchvision.models import resnet18  # noqa: PLC0415

    model = resnet18(num_classes=100).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    streams = [torch.cuda.Stream() for _ in range(4)]
    generator = torch.Generator().manual_seed(3)
    data = torch.randint(0, 256, (48, 3, 256, 256), dtype=torch.uint8, generator=generator)
    queue = []

    def fetch(number):
        side = int(torch.randint(160, 257, (), generator=generator)) // 8 * 8
        raw = data[:, :, :side, :side].contiguous().pin_memory()
        labels = torch.randint(100, (48,), generator=generator).pin_memory()
        with torch.cuda.stream(streams[number % 4]):
            images = raw.cuda(non_blocking=True).float().div_(255).to(memory_format=torch.channels_last)
            queue.append((images, labels.cuda(non_blocking=True), streams[number % 4], raw, labels))

    for number in range(4):
        fetch(number)

    def step(number):
        images, labels, stream, *_ = queue.pop(0)
        torch.cuda.current_stream().wait_stream(stream)
        images.record_stream(torch.cuda.current_stream())
        labels.record_stream(torch.cuda.current_stream())
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        del images, labels
        fetch(number)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return 24, step


def gather(torch):
    """As in sharded training: a layer's weights are gathered before use and dropped afterwards."""
    layers, width, shards = 24, 2048, 8
    whole = [torch.randn(width * width * 4, device="cuda").mul_(0.01) for _ in range(layers)]
    parts = [[part.clone() for part in weight.chunk(shards)] for weight in whole]
    del whole
    functional = torch.nn.functional
    generator = torch.Generator().manual_seed(3)

    def block(x, number):
        weight = torch.cat(parts[number])
        up, down = weight.view(2, -1).unbind()
        up, down = up.view(2 * width, width), down.view(width, 2 * width)
        return x + functional.linear(functional.gelu(functional.linear(x, up)), down)

    def step(_):
        x = torch.randn(int(torch.randint(64, 1025, (), generator=generator)), width, device="cuda")
        with torch.no_grad():
            for number in range(layers):
                x = block(x, number)
        return x.abs().mean()

    return 40, step


def graph_net(torch):
    """A graph network on graphs of random sizes."""
    from torch_geometric.nn import GraphSAGE  # noqa: PLC0415

    model = GraphSAGE(128, 256, num_layers=3, out_channels=64).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    generator = torch.Generator().manual_seed(3)

    def step(_):
        nodes = int(torch.randint(20_000, 100_001, (), generator=generator))
        edges = torch.randint(nodes, (2, 8 * nodes), device="cuda")
        given = torch.randn(nodes, 128, device="cuda")
        loss = model(given, edges).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return 20, step


WORKLOADS = {
    "lm_train": lm_train,
    "lm_checkpoint": lm_checkpoint,
    "lm_serve": lm_serve,
    "detect": detect,
    "prefetch": prefetch,
    "gather": gather,
    "graph_net": graph_net,
}
