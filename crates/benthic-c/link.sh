#!/bin/sh
# Links the shared libraries out of the static one: `link.sh LIBBENTHIC.A DIRECTORY`.
#
# Each library exports the symbols of its list, under the versions of the list. The directory gets
# libbenthic.so.1, libbenthic-rados.so.1, and links to them: the names without a number, for compilers, and
# librados/librados.so.2, the name under which programs look for Ceph's library. It has a directory of its own,
# because libbenthic.so.1 looks for Ceph's library, too.
set -eu
[ $# = 2 ] || { echo "usage: link.sh LIBBENTHIC.A DIRECTORY" >&2; exit 2; }
here=$(dirname "$0") archive=$1 out=$2

link() { # NAME LIST
	# The library has threads, so it stays loaded (nodelete). An exported function makes the linker load its part of the archive.
	symbols=$(sed -n 's/^\t*\([a-z][a-z0-9_]*\);$/-Wl,-u,\1/p' "$here/$2")
	# shellcheck disable=SC2086 # each symbol is an argument
	"${CC:-cc}" -shared -o "$out/$1" -Wl,-soname,"$1" -Wl,--version-script="$here/$2" $symbols \
		-Wl,--gc-sections,--strip-debug,--no-undefined -Wl,-z,relro,-z,now,-z,nodelete "$archive" -lgcc_s -lpthread -lm -ldl -lc
	ln -sf "$1" "$out/${1%.so.*}.so"
}

mkdir -p "$out/librados"
link libbenthic.so.1 benthic.map
link libbenthic-rados.so.1 librados.map
ln -sf ../libbenthic-rados.so.1 "$out/librados/librados.so.2"
