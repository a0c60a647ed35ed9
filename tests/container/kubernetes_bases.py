# SPDX-License-Identifier: Apache-2.0
"""The objects in deploy/kubernetes, as kubectl builds them."""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

BASES = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
# before this minor version of 1, kubectl has other keys for directories and patches
KNOWS_KEYS = 21
OLD_KEYS = ((re.compile(r"^resources:(?=\n  - \.\./)", re.M), "bases:"),
            (re.compile(r"^patches:$", re.M), "patchesStrategicMerge:"),
            (re.compile(r"^  - path: ", re.M), "  - "))


def kubectl_minor():
    told = subprocess.run(["kubectl", "version", "--client", "-o", "json"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    return int(re.match(r"\d+", json.loads(told)["clientVersion"]["minor"]).group())


def kustomize(name):
    """Returns the objects of a base, as YAML."""
    with tempfile.TemporaryDirectory() as directory:
        copy = pathlib.Path(directory) / "kubernetes"
        shutil.copytree(BASES, copy)
        if kubectl_minor() < KNOWS_KEYS:
            for file in copy.glob("*/kustomization.yaml"):
                text = file.read_text()
                for pattern, old in OLD_KEYS:
                    text = pattern.sub(old, text)
                file.write_text(text)
        return subprocess.run(["kubectl", "kustomize", str(copy / name)], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
