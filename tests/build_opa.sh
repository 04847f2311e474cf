#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/build_opa.sh DIR: the Open Policy Agent as DIR/opa, from the sources in Debian unstable's Go
# libraries, with unstable's Go. Nothing is installed: packages are unpacked below DIR, and everything
# except the program is removed again. For tests with the real OPA; `./dev test opa` calls the script.
set -euo pipefail

dir=$(mkdir -p "$1" && cd "$1" && pwd)
work=$dir/work
go=1.26
library=golang-github-open-policy-agent-opa-dev

mirror=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null \
  | awk '$2 == "main" && !found++ { print $1 }' || true)
[ -n "$mirror" ] || { echo "no Debian mirror is configured here" >&2; exit 1; }

rm -rf "$work"
mkdir -p "$work/lists/partial" "$work/packages" "$work/root" "$work/tmp"
printf 'Types: deb\nURIs: %s\nSuites: sid\nComponents: main\nSigned-By: %s\n' \
  "$mirror" /usr/share/keyrings/debian-archive-keyring.gpg >"$work/sid.sources"
only=(-o "Dir::Etc::sourcelist=$work/sid.sources" -o Dir::Etc::sourceparts=/dev/null
  -o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root)
timeout 180 apt-get "${only[@]}" update -q

# The libraries and their libraries; other dependencies are only needed for an installation.
mapfile -t packages < <(apt-get "${only[@]}" install -y -q --no-install-recommends --print-uris \
  "$library" "golang-$go-go" "golang-$go-src" | sed -n "s/^'[^']*' \(golang-[^_]*\)_.*/\1/p" \
  | grep -E -- "-dev\$|^golang-$go-(go|src)\$")
(cd "$work/packages" && timeout 600 apt-get "${only[@]}" download -q "${packages[@]}")
for package in "$work"/packages/*.deb; do
  dpkg-deb -x "$package" "$work/root"
done

# The tables of OPA's command line need stable's older library.
(cd "$work" && timeout 60 apt-get download -q golang-github-olekukonko-tablewriter-dev)
dpkg-deb -x "$work"/golang-github-olekukonko-tablewriter-dev_*.deb "$work/stable"

export GOROOT=$work/root/usr/lib/go-$go GOPATH=$work/stable/usr/share/gocode:$work/root/usr/share/gocode GOCACHE=$work/cache GOTMPDIR=$work/tmp
export GO111MODULE=off GOTOOLCHAIN=local GOFLAGS= CGO_ENABLED=0 HOME=$work
cd "$work/root/usr/share/gocode/src/github.com/open-policy-agent/opa"
timeout 1500 "$GOROOT/bin/go" build -p 2 -ldflags '-s -w' -o "$dir/opa" .
"$dir/opa" version
chmod -R u+w "$work"
rm -rf "$work"
