#!/usr/bin/env bash
# dist.sh VERSION TARGET... builds the release files in bin/dist. A TARGET is amd64 or arm64
# (Linux with glibc), or static-amd64 or static-arm64 (any Linux, but no C libraries). For
# each target it makes an archive with the binary, manual pages, completions and licence
# notices, for glibc targets also a Debian package and a Python wheel, and for static targets
# a container image. It adds SHA256SUMS of all files and the Containerfile. DIST names
# another output folder.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?dist.sh VERSION TARGET...}
shift
out=${DIST:-$PWD/bin/dist}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"
# With a high GOGC the compiler takes an eighth less time, but more memory.
export CGO_ENABLED=0 GOOS=linux GOGC=800
host=$(go env GOHOSTARCH)

# build writes the programs of one architecture to $work/TARGET. The second one only compiles
# the packages that depend on the tag nodl.
build() { # ARCH TARGET...
	local target tags
	for target in "$1" "static-$1"; do
		[[ " ${*:2} " == *" $target "* ]] || continue
		if [ "$target" = "$1" ]; then tags=; else tags=nodl; fi
		GOARCH=$1 go build -trimpath -tags "$tags" -o "$work/$target/kernbench" \
			-ldflags "-s -w -X github.com/kernbench/kernbench/internal/host/hostinfo.Version=$version" ./cmd/kernbench
	done
}

# notices prints the licences of every module that is linked into the binary.
notices() { # ARCH
	echo "kernbench $version contains the following modules."
	GOARCH=$1 go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}{{"\t"}}{{.Version}}{{"\t"}}{{.Dir}}{{end}}{{end}}' ./cmd/kernbench |
		sort -u | while IFS=$'\t' read -r path v dir; do
		printf '\n\n==== %s %s ====\n\n' "$path" "$v"
		found=
		for f in "$dir"/*LICEN[SC]E* "$dir"/COPYING* "$dir"/NOTICE*; do
			if [ -f "$f" ]; then
				cat "$f"
				found=1
			fi
		done
		[ -n "$found" ] || { echo "dist.sh: module $path has no licence file" >&2; exit 1; }
	done
	printf '\n\n==== Go %s ====\n\n' "$(go env GOVERSION)"
	cat "$(go env GOROOT)/LICENSE"
}

# The architectures are built at the same time, because the linker uses only one core.
builds=()
for arch in amd64 arm64; do
	build "$arch" "$host" "$@" &
	builds+=($!)
done
failed=
for pid in "${builds[@]}"; do wait "$pid" || failed=1; done
[ -z "$failed" ]

# The manual pages are the same for all targets, so a program for this machine writes them.
"$work/$host/kernbench" man "$work/man1"
for shell in bash zsh fish; do
	"$work/$host/kernbench" completion $shell >"$work/completion.$shell"
done
gzip -9n "$work"/man1/*.1

for target in "$@"; do
	arch=${target#static-}
	notices "$arch" >"$work/THIRD_PARTY_NOTICES"
	name=kernbench-$version-linux-$target
	root=$work/$name
	mkdir -p "$root/bin" "$root/share/man/man1" "$root/share/doc/kernbench" "$root/share/bash-completion/completions" \
		"$root/share/zsh/vendor-completions" "$root/share/fish/vendor_completions.d"
	cp "$work/$target/kernbench" "$root/bin/"
	cp "$work"/man1/*.gz "$root/share/man/man1/"
	cp "$work/completion.bash" "$root/share/bash-completion/completions/kernbench"
	cp "$work/completion.zsh" "$root/share/zsh/vendor-completions/_kernbench"
	cp "$work/completion.fish" "$root/share/fish/vendor_completions.d/kernbench.fish"
	cp README.md CHANGELOG.md packaging/copyright "$work/THIRD_PARTY_NOTICES" "$root/share/doc/kernbench/"
	tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -czf "$out/$name.tar.gz" "$name"
	if [ "$target" != "$arch" ]; then
		GOOS= GOARCH= go run ./scripts/image -version "$version" -arch "$arch" -licences "$work/THIRD_PARTY_NOTICES" \
			-created "$(git log -1 --format=%ct 2>/dev/null || echo 0)" -o "$out/kernbench-$version-linux-$arch.oci.tar" \
			"$root/bin/kernbench"
	else
		deb=$work/deb-$arch
		mkdir -p "$deb/DEBIAN"
		cp -r "$root" "$deb/usr"
		number=$(echo "$version" | sed 's/^v//; s/\.dev/~dev/; s/[^0-9A-Za-z.+~]/+/g')
		case $number in [0-9]*) ;; *) number=0~$number ;; esac
		cat >"$deb/DEBIAN/control" <<-END
			Package: kernbench
			Version: $number
			Architecture: $arch
			Maintainer: The kernbench authors <kernbench@localhost>
			Depends: libc6
			Section: devel
			Priority: optional
			Description: how fast a distributed kernel is, whether it is right, how far from the limit
			 Runs benchmarks of distributed kernels over axes, rank counts and environment
			 variables, checks them, and keeps every row in a journal.
		END
		"$work/$host/kernbench" wheel "$out" --program "$root/bin/kernbench" --licences "$work/THIRD_PARTY_NOTICES" >/dev/null
		dpkg-deb --root-owner-group -Zgzip -z6 -b "$deb" "$out/kernbench_${number}_$arch.deb" >/dev/null
	fi
done
cp packaging/Containerfile "$out/"
(cd "$out" && find . -name "*.tar*" -o -name "*.deb" -o -name "*.whl" | sort | xargs sha256sum >SHA256SUMS)
scripts/dist-check.sh "$out"
ls -l "$out"
