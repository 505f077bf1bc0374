# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# An image whose C library is musl: its loader and library, an ldd that says so, and /usr/bin/libc, which runs on them. Its shell
# is the static busybox of the other image, since Debian has none that is linked against musl. It has no base-distro label on
# purpose: what it is must be found out.
IMAGE=agentd.local/musl:1
CHANGES=(
  'CMD ["/bin/sh"]'
  'LABEL ai.backend.kernelspec=1 ai.backend.role=COMPUTE ai.backend.features="batch uid-match"'
  'LABEL ai.backend.runtime-type=app ai.backend.runtime-path=/usr/bin/libc'
  'LABEL ai.backend.resource.min.cpu=1 ai.backend.resource.min.mem=16m'
)
inputs() { package_version busybox-static musl gcc; }
make_root() {
  local loader
  busybox_root "$1"
  loader=$(compgen -G '/lib/ld-musl-*.so.1')
  mkdir -p "$1/lib"
  # The loader is the library, and as ldd it lists libraries.
  install -m 755 "$(readlink -f "$loader")" "$1$loader"
  ln -s "$loader" "$1/usr/bin/ldd"
  musl-gcc -Os -Wall -o "$1/usr/bin/libc" "$RECIPES/musl/libc.c"
}
