#!/usr/bin/env bash
# image-run.sh [OPTION VALUE]... ARCHIVE ARGUMENT... runs a container of an image that
# scripts/image wrote, with crun, one of the runtimes of Podman and Kubernetes. It needs no
# container engine and no image store, but root, crun and jq. The options are the ones of
# `podman run`:
#   --entrypoint PROGRAM   run this program of the image, looked up in its PATH
#   --env NAME=VALUE       set a variable; repeatable
#   --volume FROM:TO       mount a file or folder of this machine; repeatable
#   --network ns:PATH      use this network namespace; otherwise the container has no network
#   --hostname NAME        the host name in the container
#   --shm-size SIZE        the size of /dev/shm, otherwise 64m
set -euo pipefail
entrypoint='' network='' hostname=kernbench shm=64m env=() volumes=()
while [[ ${1-} == --* ]]; do
	case $1 in
	--entrypoint) entrypoint=$2 ;;
	--env) env+=("$2") ;;
	--volume) volumes+=("$2") ;;
	--network) network=${2#ns:} ;;
	--hostname) hostname=$2 ;;
	--shm-size) shm=$2 ;;
	*) echo "image-run.sh: unknown option $1" >&2 && exit 2 ;;
	esac
	shift 2
done
archive=${1:?image-run.sh [OPTION VALUE]... ARCHIVE ARGUMENT...}
shift
for tool in crun jq; do
	command -v $tool >/dev/null || { echo "image-run.sh: $tool is not installed (Debian: apt-get install $tool)" >&2 && exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/image" "$work/rootfs"
tar xf "$archive" -C "$work/image"

# blob prints the blob with the digest at a path of a JSON file.
blob() { cat "$work/image/blobs/sha256/$(jq -r "$2" "$1" | sed 's/^sha256://')"; }
# list prints its arguments as a JSON array.
list() { jq -nc '$ARGS.positional' --args -- "$@"; }
blob "$work/image/index.json" '.manifests[0].digest' >"$work/manifest.json"
blob "$work/manifest.json" '.config.digest' >"$work/image.json"
blob "$work/manifest.json" '.layers[0].digest' | tar xz -C "$work/rootfs"

# crun's default configuration drops most capabilities and hides parts of /proc, as Podman and
# Kubernetes do. A container without limits of its own needs no control group.
cd "$work"
crun spec
jq --slurpfile image image.json --arg entrypoint "$entrypoint" --arg network "$network" --arg hostname "$hostname" \
	--arg shm "$shm" --argjson env "$(list "${env[@]}")" --argjson volumes "$(list "${volumes[@]}")" '
	$image[0].config as $c | .process.terminal = false | .root.readonly = false | .hostname = $hostname |
	.process.args = (if $entrypoint == "" then $c.Entrypoint else [$entrypoint] end) + $ARGS.positional |
	.process.env = $c.Env + $env + ["HOSTNAME=" + $hostname] | .process.cwd = $c.WorkingDir |
	.mounts |= map(select(.type != "cgroup")) | del(.linux.resources) |
	(.mounts[] | select(.destination == "/dev/shm").options[] | select(startswith("size="))) = "size=" + $shm |
	.mounts += [$volumes[] | split(":") | {type: "bind", source: .[0], destination: .[1], options: ["bind", "rw"]}] |
	if $network == "" then . else (.linux.namespaces[] | select(.type == "network")).path = $network end
	' --args -- "$@" <config.json >bundle.json
mv bundle.json config.json
# crun refuses a machine with both versions of control groups, so it sees only version 2.
unshare --mount bash -c '
	if [ -d /sys/fs/cgroup/unified ]; then
		umount -R -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
	fi
	exec crun --root "$PWD/state" --cgroup-manager=disabled run "kernbench-$$" </dev/null'
