#!/usr/bin/env bash
# Extracts the schema with which docs/jobset.yaml is checked. It is the custom resource
# definition in the Go module of a JobSet release, without descriptions and without the
# status. The argument is the release. Needs the network and Debian's python3-yaml.
set -euo pipefail

version=${1:-v0.10.1}
module=$(go mod download -json "sigs.k8s.io/jobset@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
python3 - "$module/config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml" <<'PYTHON' |
import json, sys, yaml

def bare(node, fields=False):
    if isinstance(node, dict):
        return {k: bare(v, k == "properties" and not fields) for k, v in node.items() if fields or k != "description"}
    return [bare(v) for v in node] if isinstance(node, list) else node

versions = yaml.safe_load(open(sys.argv[1]))["spec"]["versions"]
schema = bare(versions[0]["schema"]["openAPIV3Schema"])
del schema["properties"]["status"]
json.dump(schema, sys.stdout, sort_keys=True, separators=(",", ":"))
PYTHON
	gzip -9 -n >"$(dirname "$0")/../cmd/kernbench/testdata/jobset-$version.json.gz"
