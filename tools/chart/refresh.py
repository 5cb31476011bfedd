"""Writes schemas/KUBERNETES-VERSION.json.gz: the strict JSON schemas of the kinds that the chart makes.

They are those of the package kubernetes-validate of PyPI, pinned in requirements.txt, without descriptions and without
what these kinds do not reach:

    python3 -m pip install --no-deps --require-hashes --target DIR -r tools/chart/requirements.txt
    python3 tools/chart/refresh.py DIR
"""

import gzip
import json
import pathlib
import sys

VERSIONS = ["1.33.0", "1.34.0", "1.35.0", "1.36.0", "1.37.0"]
KINDS = [
    "configmap-v1", "cronjob-batch-v1", "deployment-apps-v1", "horizontalpodautoscaler-autoscaling-v2",
    "ingress-networking-v1", "job-batch-v1", "networkpolicy-networking-v1", "pod-v1", "poddisruptionbudget-policy-v1",
    "service-v1", "serviceaccount-v1",
]


def without_descriptions(node, names=False):
    """Returns node without descriptions; names says that its keys are names of properties."""
    if isinstance(node, list):
        return [without_descriptions(n) for n in node]
    if not isinstance(node, dict):
        return node
    drop = () if names else ("description", "$id")
    return {k: without_descriptions(v, k in ("properties", "$defs") and not names)
            for k, v in node.items() if k not in drop}


def references(node):
    """Yields the names of the definitions that node refers to."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rsplit("/", 1)[1]
            else:
                yield from references(value)
    elif isinstance(node, list):
        for n in node:
            yield from references(n)


def main():
    source = pathlib.Path(sys.argv[1]) / "kubernetes_validate" / "kubernetes-json-schema"
    target = pathlib.Path(__file__).parent / "schemas"
    for version in VERSIONS:
        folder = source / f"v{version}-local-strict"
        definitions = json.loads((folder / "_definitions.json").read_text())["$defs"]
        files, wanted = {}, []
        for kind in KINDS:
            files[kind] = without_descriptions(json.loads((folder / f"{kind}.json").read_text()))
            wanted += references(files[kind])
        reached = {}
        while wanted:
            name = wanted.pop()
            if name not in reached:
                reached[name] = without_descriptions(definitions[name])
                wanted += references(reached[name])
        files["_definitions"] = {"$defs": reached}
        text = json.dumps(files, sort_keys=True).replace("/api/_definitions.json#", "_definitions.json#")
        (target / f"{version}.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


main()
