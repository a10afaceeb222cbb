"""docs/ray.md: its program runs, and the cluster for Kubernetes is well formed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import qoop

if TYPE_CHECKING:
    from tests.ray.conftest import Nodes

pytestmark = pytest.mark.ray

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_program_runs(two_nodes: Nodes, tpcds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [program] = re.findall(r"^```py\n(.*?)^```", (DOCS / "ray.md").read_text(), re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("RAY_ADDRESS", two_nodes.address)
    names: dict[str, Any] = {"tables": tpcds, "checkpoints": tmp_path}
    exec(compile(program, "ray.md", "exec"), names)
    with qoop.connect(slots=1) as session:
        session.register_folder(tpcds)
        expected = session.sql("SELECT i_category, count(*) FROM item GROUP BY ALL ORDER BY ALL").fetchall()
    assert names["rows"] == expected and len(expected) > 5


QUANTITY = {"type": "string", "pattern": r"^\d+(\.\d+)?(m|[KMGT]i?)?$"}
RESOURCES = {"type": "object", "required": ["cpu", "memory"], "additionalProperties": QUANTITY}
CONTAINER = {
    "type": "object",
    "required": ["name", "image", "resources"],
    "properties": {
        "env": {"items": {"required": ["name", "value"], "properties": {"value": {"type": "string"}}}},
        "ports": {"items": {"required": ["containerPort", "name"]}},
        "resources": {
            "required": ["requests", "limits"],
            "properties": {"requests": RESOURCES, "limits": RESOURCES},
        },
        "volumeMounts": {"items": {"required": ["name", "mountPath"], "additionalProperties": {"type": "string"}}},
    },
}
POD = {
    "required": ["spec"],
    "properties": {
        "spec": {
            "required": ["containers"],
            "properties": {
                "containers": {"type": "array", "minItems": 1, "items": CONTAINER},
                "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
                "terminationGracePeriodSeconds": {"type": "integer"},
                "tolerations": {"items": {"required": ["key", "operator", "value", "effect"]}},
                "volumes": {"items": {"required": ["name"]}},
            },
        }
    },
}
PARAMETERS = {"type": "object", "additionalProperties": {"type": "string"}}
GROUP = {"required": ["rayStartParams", "template"], "properties": {"rayStartParams": PARAMETERS, "template": POD}}
WORKERS = {
    "required": ["groupName", "replicas", "minReplicas", "maxReplicas"],
    "properties": {name: {"type": "integer"} for name in ("replicas", "minReplicas", "maxReplicas")},
    "allOf": [GROUP],
}
CLUSTER = {
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayCluster"},
        "spec": {
            "required": ["rayVersion", "headGroupSpec", "workerGroupSpecs"],
            "properties": {"headGroupSpec": GROUP, "workerGroupSpecs": {"type": "array", "items": WORKERS}},
        },
    },
}
"""The parts of KubeRay's and Kubernetes' own schemas that the file uses."""


def test_the_cluster_for_kubernetes_is_well_formed() -> None:
    import jsonschema  # both come with Ray
    import yaml

    found = yaml.safe_load((DOCS / "kuberay.yaml").read_text())
    jsonschema.Draft202012Validator(CLUSTER).validate(found)
    head, [workers] = found["spec"]["headGroupSpec"], found["spec"]["workerGroupSpecs"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    pod = workers["template"]["spec"]
    [drain] = [one["value"] for one in pod["containers"][0]["env"] if one["name"].endswith("DRAIN_TIMEOUT_S")]
    assert 0 < int(drain) < pod["terminationGracePeriodSeconds"]
    for each in (head["template"]["spec"], pod):
        volumes = {volume["name"] for volume in each["volumes"]}
        assert {mount["name"] for one in each["containers"] for mount in one["volumeMounts"]} <= volumes
