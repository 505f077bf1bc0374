#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh [--force] [NAME…]: build the kernel images of demo and tests (all of them without a name) and load them into the engine.
#   busybox   agentd.local/busybox:1            one static busybox
#   musl      agentd.local/musl:1               busybox, and a program that runs on musl
#   noshell   agentd.local/noshell:1            one static program: no shell, no /etc/passwd
#   python    agentd.local/python:3.13-trixie   Debian 13, Python 3.13 with ipykernel
# --force builds anew what is there. An image is kept while its recipe is the same; one that the engine lost comes back from
# $AGENTD_CACHE/images (~/.cache/agentd/images). No registry is asked: everything is made from Debian packages and this repository.
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../hack/lib.sh"

RECIPES=$ROOT/kernel-images
CACHE=${AGENTD_CACHE:-$HOME/.cache/agentd}/images
ALL=(busybox musl noshell python)

# Each NAME/recipe.sh is sourced in a subshell of its own and sets
#   IMAGE          the name under which the engine knows it
#   CHANGES        Dockerfile instructions, one an element: labels, command, environment
#   inputs         a function that prints what the image is made from besides the recipe's files: versions of packages
#   make_root DIR  a function that fills the root directory
# The helpers here are for the recipes.

package_version() { dpkg-query -W -f '${Package} ${Version}\n' "$@"; }

# busybox_root DIR: a static busybox with all its applets, root and nobody as users.
busybox_root() {
  local applet
  mkdir -p "$1"/{bin,sbin,usr/bin,usr/sbin,etc,root,proc,sys,dev,home,run,var/log,opt}
  mkdir -m 1777 "$1/tmp"
  install -m 755 /bin/busybox "$1/bin/busybox"
  while read -r applet; do
    # A link named busybox would replace the program.
    [ "$(basename "$applet")" = busybox ] || ln -s /bin/busybox "$1/$applet"
  done < <(/bin/busybox --list-full)
  [ -e "$1/bin/sh" ] || ln -s busybox "$1/bin/sh"
  printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'nobody:x:65534:65534:nobody:/:/bin/false' >"$1/etc/passwd"
  printf '%s\n' 'root:x:0:' 'nogroup:x:65534:' >"$1/etc/group"
}

# debian_mirror: the mirror that this machine's own apt uses.
debian_mirror() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 'Component: main' | head -n 1
}

# hash_of NAME: changes with anything that the image is made from.
hash_of() {
  {
    cd "$RECIPES"
    declare -f package_version busybox_root debian_mirror
    find "$1" -type f ! -name '*_test.go' -print0 | sort -z | xargs -0 sha256sum
    inputs
  } | sha256sum | cut -c 1-16
}

image_id() { docker image inspect -f '{{.Id}}' "$1" 2>/dev/null || true; }
recipe_of_loaded() { docker image inspect -f '{{index .Config.Labels "agentd.recipe"}}' "$1" 2>/dev/null || true; }
size_of() { docker image inspect -f '{{.Size}}' "$1" | awk '{ printf "%.1f MB", $1 / 1e6 }'; }

# superseded ID: remove the image that bore the name before, unless a container still needs it.
superseded() { [ -z "$1" ] || [ "$1" = "$(image_id "$IMAGE")" ] || docker rmi "$1" >/dev/null 2>&1 || true; }

# provide NAME
provide() (
  name=$1
  started=$SECONDS
  CHANGES=()
  # shellcheck source=/dev/null
  . "$RECIPES/$name/recipe.sh"
  hash=$(hash_of "$name")
  old=$(image_id "$IMAGE")
  archive=$CACHE/$name-$hash.tar
  if [ -z "$force" ]; then
    if [ "$(recipe_of_loaded "$IMAGE")" = "$hash" ]; then
      echo "$IMAGE is up to date"
      return
    fi
    if [ -e "$archive" ] && docker load -q -i "$archive" >/dev/null; then
      superseded "$old"
      echo "$IMAGE loaded from $archive ($((SECONDS - started)) s)"
      return
    fi
  fi
  [ "$name" != python ] || [ "$(id -u)" = 0 ] || die "building $IMAGE needs root: it sets up a Debian system in a folder"
  say "building $IMAGE"
  tree=$(mktemp -d "$CACHE/tree-$name.XXXXXX")
  trap 'rm -rf "$tree"' EXIT
  # In the background, so that set -e holds in it.
  make_root "$tree/root" >"$CACHE/$name.log" 2>&1 &
  wait $! || {
    tail -n 20 "$CACHE/$name.log" >&2
    die "could not build $IMAGE; log: $CACHE/$name.log"
  }
  changes=(-c "LABEL agentd.recipe=$hash")
  for change in "${CHANGES[@]}"; do changes+=(-c "$change"); done
  tar -C "$tree/root" --numeric-owner --exclude='./dev/*' -c . | docker import "${changes[@]}" - "$IMAGE" >/dev/null
  superseded "$old"
  rm -f "$CACHE/$name"-*.tar
  docker save -o "$archive.part" "$IMAGE"
  mv "$archive.part" "$archive"
  echo "$IMAGE built: $(size_of "$IMAGE") in $((SECONDS - started)) s"
)

force=
names=()
for argument; do
  case $argument in
    --force) force=1 ;;
    busybox | musl | noshell | python) names+=("$argument") ;;
    *) die "no image $argument: kernel-images/build.sh [--force] [${ALL[*]}]" ;;
  esac
done
((${#names[@]})) || names=("${ALL[@]}")
docker_answers || die "no Docker engine answers: run hack/setup.sh"
mkdir -p "$CACHE"
# Two builds at a time would remove each other's archives.
exec 9>"$CACHE/.lock"
flock 9
for name in "${names[@]}"; do provide "$name"; done
