#!/usr/bin/env bash
# image-run.sh ARCHIVE ARGUMENT... runs the program of a container image with crun, the runtime
# of Podman and Kubernetes, without an engine and without an image store. It unpacks the
# archive that scripts/image wrote and makes a bundle of it. It needs root, crun and jq.
set -euo pipefail
archive=${1:?image-run.sh ARCHIVE ARGUMENT...}
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/image" "$work/rootfs"
tar xf "$archive" -C "$work/image"

# blob prints the blob with the digest at a path of a JSON file.
blob() { cat "$work/image/blobs/sha256/$(jq -r "$2" "$1" | sed 's/^sha256://')"; }
blob "$work/image/index.json" '.manifests[0].digest' >"$work/manifest.json"
blob "$work/manifest.json" '.config.digest' >"$work/image.json"
blob "$work/manifest.json" '.layers[0].digest' | tar xz -C "$work/rootfs"

cd "$work"
crun spec
jq --slurpfile image image.json '$image[0].config as $c | .process.terminal = false | .root.readonly = false |
	.process.args = $c.Entrypoint + $ARGS.positional | .process.env = $c.Env | .process.cwd = $c.WorkingDir |
	.mounts |= map(select(.type != "cgroup")) | del(.linux.resources)' --args -- "$@" <config.json >bundle.json
mv bundle.json config.json
# The container uses no control group of its own, since they may be read-only. crun refuses a
# machine with both versions of control groups, so it sees only version 2.
unshare --mount bash -c '
	if [ -d /sys/fs/cgroup/unified ]; then
		umount -R -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
	fi
	crun --cgroup-manager=disabled run "kernbench-$$" </dev/null'
