#!/usr/bin/env bash
# dist-check.sh FOLDER checks the files that dist.sh has built: every archive, package and
# wheel contains a program for the architecture in its name, a package's fields name the
# same architecture, static programs need no dynamic loader, and the image of this machine's
# architecture runs. It stops at the first fault. At the end it lists the images that it could
# not run, each with the reason.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:?dist-check.sh FOLDER}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "dist-check.sh: $*" >&2; exit 1; }

# The machine of an ELF file is at byte 18: 62 is x86-64, 183 is AArch64.
machine() {
	[ "$(head -c4 "$1" | tail -c3)" = ELF ] || fail "$1 is no ELF file"
	case $(od -An -tu2 -j18 -N2 "$1" | tr -d ' ') in 62) echo amd64 ;; 183) echo arm64 ;; *) echo another ;; esac
}

checked=0 not_run=()
for file in *.tar.gz *.deb; do
	[ -e "$file" ] || fail "$PWD has no $file"
	root=$work/$file
	mkdir "$root"
	case $file in
	*.tar.gz) tar xzf "$file" -C "$root" --strip-components=1 ;;
	*.deb) dpkg-deb -x "$file" "$root" && mv "$root"/usr/* "$root" ;;
	esac
	arch=${file%.tar.gz} arch=${arch%.deb} arch=${arch##*[-_]}
	have=$(machine "$root/bin/kernbench")
	[ "$have" = "$arch" ] || fail "the program of $file is for $have"
	case $file in
	*.deb)
		field=$(dpkg-deb -f "$file" Architecture)
		[ "$field" = "$arch" ] || fail "$file says that it is for $field"
		;;
	*-static-*) ! grep -q 'ld-linux' "$root/bin/kernbench" || fail "the static program of $file asks for a loader" ;;
	*) grep -q 'ld-linux' "$root/bin/kernbench" || fail "the program of $file cannot open libraries" ;;
	esac
	for page in share/man/man1/kernbench-run.1.gz share/doc/kernbench/THIRD_PARTY_NOTICES share/doc/kernbench/copyright share/bash-completion/completions/kernbench; do
		[ -s "$root/$page" ] || fail "$file has no $page"
	done
	checked=$((checked + 1))
done
for file in *.whl; do
	[ -e "$file" ] || fail "$PWD has no wheel"
	root=$work/$file
	mkdir "$root"
	python3 -m zipfile -e "$file" "$root"
	case $file in *_x86_64.whl) arch=amd64 ;; *_aarch64.whl) arch=arm64 ;; *) arch=none ;; esac
	have=$(machine "$root/kernbench/bin/kernbench")
	[ "$have" = "$arch" ] || fail "the program of $file is for $have"
	for part in kernbench/__init__.py kernbench/py.typed kernbench-*.dist-info/RECORD kernbench-*.dist-info/licenses/THIRD_PARTY_NOTICES; do
		[ -e "$root"/$part ] || fail "$file has no $part"
	done
	checked=$((checked + 1))
done
for file in *.oci.tar; do
	[ -e "$file" ] || continue # only static targets have one
	root=$work/$file
	mkdir -p "$root/files"
	tar xf "$file" -C "$root"
	(cd "$root/blobs/sha256" && for blob in *; do echo "$blob  $blob"; done | sha256sum --quiet -c) || fail "$file is damaged"
	for blob in "$root"/blobs/sha256/*; do
		if gzip -t "$blob" 2>/dev/null; then tar xzf "$blob" -C "$root/files"; fi
	done
	arch=${file%.oci.tar} arch=${arch##*-}
	have=$(machine "$root/files/bin/kernbench")
	[ "$have" = "$arch" ] || fail "the program of $file is for $have"
	! grep -q 'ld-linux' "$root/files/bin/kernbench" || fail "the program of $file asks for a loader"
	missing=
	for tool in crun jq; do command -v $tool >/dev/null || missing+=" $tool"; done
	if [ "$arch" != "$(dpkg --print-architecture)" ]; then
		not_run+=("$file: this machine is $(dpkg --print-architecture)")
	elif [ "$(id -u)" != 0 ]; then
		not_run+=("$file: only root can start containers")
	elif [ -n "$missing" ]; then
		not_run+=("$file: install$missing")
	else
		"$here/image-run.sh" "$PWD/$file" version >/dev/null || fail "crun cannot run $file"
	fi
	checked=$((checked + 1))
done
# With a default value, TARGETARCH would stay the default on every machine.
grep -qx 'ARG TARGETARCH' Containerfile || fail "the Containerfile is not for every architecture"
grep -q '^COPY kernbench_\*_${TARGETARCH}.deb ' Containerfile || fail "the Containerfile does not install the package"
sha256sum --quiet -c SHA256SUMS || fail "the sums are of other files"
echo "$checked archives, packages, wheels and images are what their names say"
for image in "${not_run[@]}"; do echo "not run: $image"; done
