#!/usr/bin/env python3
"""Counts ConfigMaps by namespace and exports the numbers as a metric."""
import json
import os
import sys
from collections import Counter

CONFIG = {
    "configVersion": "v1",
    "settings": {"executionMinInterval": "1s", "executionBurst": 5},
    "kubernetes": [
        {
            "name": "configmaps",
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "executeHookOnEvent": ["Added", "Deleted"],
            "jqFilter": ".metadata.namespace",
            "keepFullObjectsInMemory": False,
            "group": "census",
            "queue": "census",
        }
    ],
}


def main():
    with open(os.environ["BINDING_CONTEXT_PATH"]) as file:
        contexts = json.load(file)
    with open(os.environ["VALUES_PATH"]) as file:
        ignored = json.load(file)["namespaceCensus"]["ignored"]
    found = Counter(item["filterResult"] for item in contexts[-1]["snapshots"]["configmaps"])
    with open(os.environ["METRICS_PATH"], "w") as file:
        # The group removes the series of deleted namespaces.
        print(json.dumps({"action": "expire", "group": "census"}), file=file)
        for namespace, count in sorted(found.items()):
            if namespace not in ignored:
                metric = {"group": "census", "name": "census_configmaps", "action": "set", "value": count}
                print(json.dumps({**metric, "labels": {"namespace": namespace}}), file=file)


if len(sys.argv) > 1 and sys.argv[1] == "--config":
    print(json.dumps(CONFIG))
else:
    main()
