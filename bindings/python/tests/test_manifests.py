# SPDX-License-Identifier: Apache-2.0
"""What examples/kubernetes and examples/slurm say, as far as it goes without a cluster: Kubernetes' own schema takes
the manifests, and what would be started is started here, with the environment that it would have."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
KUBERNETES, SLURM = ROOT / "examples" / "kubernetes", ROOT / "examples" / "slurm"
GIB = 1 << 30

pytestmark = pytest.mark.skipif(not KUBERNETES.exists(), reason="a source archive of the package alone")
needs_yaml = pytest.mark.skipif(
    importlib.util.find_spec("kubernetes_validate") is None or importlib.util.find_spec("yaml") is None,
    reason="kubernetes-validate is not installed",
)
TRAIN = """
import json, gpupool
pool = gpupool.default_pool(0)
kept = pool.alloc("1GiB")
stats = pool.stats()
limit_bytes = gpupool.share_info(device="sim").share.limit_bytes
print(json.dumps([stats.limit_bytes, stats.share_state.name, limit_bytes]), flush=True)
import sys
if len(sys.argv) > 1: sys.stdin.read()
"""


def documents(name: str) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((KUBERNETES / name).read_text(encoding="utf-8")))


@needs_yaml
@pytest.mark.parametrize("name", ["node.yaml", "workers.yaml", "time-slicing.yaml"])
def test_kubernetes_takes_the_manifests(name: str) -> None:
    validate = importlib.import_module("kubernetes_validate")
    found = documents(name)
    assert found
    for each in found:
        validate.validate(each, validate.latest_version(), strict=True)
        broken = {**each, "metadata": {**each["metadata"], "lables": {}}}
        with pytest.raises(validate.ValidationError):
            validate.validate(broken, validate.latest_version(), strict=True)


def container(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The first container of a manifest, and its annotations."""
    (manifest,) = documents(name)
    template = manifest["spec"]["template"]
    return template["spec"]["containers"][0], template["metadata"]["annotations"]


def environment(what: dict[str, Any], annotations: dict[str, str], run: Path) -> dict[str, str]:
    """As the kubelet makes it: an annotation that is not there is empty."""
    found = {}
    for each in what["env"]:
        path = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        annotation = re.fullmatch(r"metadata\.annotations\['([^']+)'\]", path)
        if annotation is not None:
            found[each["name"]] = annotations.get(annotation[1], "")
        else:
            found[each["name"]] = "trainer-0" if path == "metadata.name" else each["value"]
    return {name: value.replace("/run/gpupool", str(run)) for name, value in found.items()}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Path]:
    """What node.yaml makes on a machine, and the program of workers.yaml."""
    for folder in ("share", "records", "bin"):
        (tmp_path / folder).mkdir(mode=0o700)
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    yield tmp_path
    for file in Path("/dev/shm").glob(f"gpupool-{os.geteuid()}.sim-node-{os.getpid()}-*"):
        file.unlink()


def start(node: Path, annotations: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    """A pod of workers.yaml, on the simulated device. GPUPOOL_INSTALL would refuse that."""
    what, _ = container("workers.yaml")
    script = what["args"][0].replace("/run/gpupool", str(node)).replace("exec env", "exec env -u GPUPOOL_INSTALL")
    own = {
        "GPUPOOL_BACKEND": "sim",
        "GPUPOOL_SIM": "capacity=8GiB",
        "GPUPOOL_SIM_SHARED": f"node-{os.getpid()}",
        # A venv is found by where its Python lies.
        "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
        "PATH": f"{node / 'bin'}:{os.environ['PATH']}",
    }
    return subprocess.Popen(
        [*what["command"], " ".join([script, *arguments])],
        cwd=node,
        env={**os.environ, **environment(what, annotations, node), **own},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@needs_yaml
def test_annotations_are_limits(node: Path) -> None:
    _, annotations = container("workers.yaml")
    assert annotations["gpupool.github.io/install"] == "torch"
    out, errors = start(node, annotations).communicate(timeout=60)
    assert (out, errors) == (f'[{4 * GIB}, "SHARED", {int(8 * GIB * 0.9) // 512 * 512}]\n', "")
    assert [file.suffix for file in (node / "records").iterdir()] == [".gpt"]
    out, errors = start(node, {"gpupool.github.io/share": "team"}).communicate(timeout=60)
    assert out.startswith('[0, "SHARED"') and errors == "", errors


@needs_yaml
def test_every_variable_is_one_that_gpupool_reads() -> None:
    known = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    for name in ("workers.yaml", "node.yaml"):
        what, _ = container(name)
        names = [each["name"] for each in what["env"] if each["name"].startswith("GPUPOOL_")]
        assert names
        for each in names:
            assert f"`{each}" in known, each


def families(page: str) -> dict[str, list[str]]:
    """The samples of each, which stand together behind one HELP and one TYPE."""
    found: dict[str, list[str]] = {}
    family = ""
    for line in page.splitlines():
        head = re.fullmatch(r"# (HELP|TYPE) (\w+) .+", line)
        if head is not None and head[1] == "HELP":
            family = head[2]
            assert family not in found
            found[family] = []
        elif head is not None:
            assert head[2] == family and not found[family]
        else:
            assert re.fullmatch(rf'{family}(\{{(\w+="[^"]*",?)+\}})? [0-9.]+', line), line
            assert line not in found[family]
            found[family].append(line)
    return found


@needs_yaml
def test_metrics_of_a_machine(node: Path) -> None:
    _, annotations = container("workers.yaml")
    pods = [start(node, annotations, "wait") for _ in range(2)]
    try:
        for pod in pods:
            assert pod.stdout is not None and pod.stdout.readline().startswith("[")
        (node / "records" / "broken.gpt").write_text("no recording", encoding="utf-8")
        what, _ = container("node.yaml")
        arguments = [
            text.replace("/run/gpupool", str(node)).replace("0.0.0.0:9837", "127.0.0.1:0") for text in what["args"]
        ]
        served = subprocess.Popen(
            [sys.executable, *what["command"][1:], *arguments],
            env={**os.environ, "GPUPOOL_BACKEND": "sim", "GPUPOOL_SIM_SHARED": f"node-{os.getpid()}"}
            | environment(what, {}, node),
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert served.stderr is not None
            port = re.search(r"port (\d+)", served.stderr.readline())
            assert port is not None
            with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics", timeout=60) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                found = families(answer.read().decode())
            with pytest.raises(urllib.error.HTTPError, match="404") as refused:
                urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/", timeout=60)
            refused.value.close()
        finally:
            served.kill()
            served.communicate()
    finally:
        for pod in pods:
            pod.communicate()
    assert found["gpupool_unread"] == ["gpupool_unread 1"]
    (used,) = found["gpupool_share_used_bytes"]
    assert used.startswith('gpupool_share_used_bytes{group="team",device="sim') and used.endswith(f" {4 * GIB}")
    assert len(found["gpupool_share_member_reserved_bytes"]) == 2
    live = found["gpupool_live_bytes"]
    assert len(live) == 2 and all('{recording="trainer-0.' in each and each.endswith(f" {GIB}") for each in live)


def test_metrics_refuse_what_they_cannot_do(tmp_path: Path) -> None:
    for arguments, words in (
        (("--records", str(tmp_path / "nowhere")), "there is no folder"),
        (("--listen", "9837"), "'9837' is no address and port"),
        (("--listen", "::1:99999"), "is no address and port"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "gpupool.launch.metrics", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


SRUN = """#!/bin/bash
# As Slurm would: eight tasks, with what TaskProlog prints in their environment.
for task in 0 1 2 3 4 5 6 7; do
  (
    export SLURM_LOCALID=$task SLURM_PROCID=$task SLURM_STEP_TASKS_PER_NODE=8 SLURM_NODEID=0 SLURM_GPUS_ON_NODE=2
    export CUDA_VISIBLE_DEVICES=0,1
    eval "$(PROLOG)"
    "$@"
  )
done
"""


def test_a_job_of_slurm(node: Path) -> None:
    program = node / "show.py"
    program.write_text(
        "import gpupool; place = gpupool.launch.place(); pool = gpupool.default_pool(place.device)\n"
        "stats, size = pool.stats(), pool.device_info().total_bytes\n"
        "print(place.device, stats.limit_bytes / size, stats.share_state.name)\n",
        encoding="utf-8",
    )
    srun = node / "bin" / "srun"
    srun.write_text(SRUN.replace("PROLOG", str(SLURM / "task_prolog.sh")), encoding="utf-8")
    srun.chmod(0o755)
    done = subprocess.run(
        ["bash", SLURM / "job.sbatch", program],
        env={
            **os.environ,
            "GPUPOOL_BACKEND": "sim",
            "GPUPOOL_SHARE_DIR": str(node / "share"),
            "PATH": f"{node / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
            "SLURM_JOB_ID": "77",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["0 0.25 SHARED", "1 0.25 SHARED"] * 4
    assert {file.name.split(".")[0] for file in (node / "share").iterdir()} == {"job-77"}


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ({}, []),
        ({"CUDA_VISIBLE_DEVICES": "0"}, ["export GPUPOOL_CAP=auto"]),
        ({"CUDA_VISIBLE_DEVICES": "0", "GPUPOOL_CAP": "4GiB"}, []),
        (
            {"CUDA_VISIBLE_DEVICES": "0", "SLURM_SHARDS_ON_NODE": "2"},
            ["export GPUPOOL_CAP=auto", "export GPUPOOL_SHARDS_PER_DEVICE=8"],
        ),
    ],
)
def test_what_the_prolog_of_a_task_prints(given: dict[str, str], printed: list[str]) -> None:
    done = subprocess.run(["sh", SLURM / "task_prolog.sh"], env=given, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == printed
