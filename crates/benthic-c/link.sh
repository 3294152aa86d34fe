#!/bin/sh
# Links the shared libraries out of the static one: `link.sh LIBBENTHIC.A DIRECTORY`.
#
# Each library exports what its list names, under the versions of the list. The directory gets
# libbenthic.so.1 and librados.so.2, and the links without a number that compilers look for.
set -eu
[ $# = 2 ] || { echo "usage: link.sh LIBBENTHIC.A DIRECTORY" >&2; exit 2; }
here=$(dirname "$0")

link() { # NAME LIST
	# An exported function makes the linker load its part of the archive.
	symbols=$(sed -n 's/^\t*\([a-z][a-z0-9_]*\);$/-Wl,-u,\1/p' "$here/$2")
	# shellcheck disable=SC2086 # each symbol is an argument
	"${CC:-cc}" -shared -o "$out/$1" -Wl,-soname,"$1" -Wl,--version-script="$here/$2" $symbols \
		-Wl,--gc-sections -Wl,-z,relro,-z,now -Wl,--no-undefined "$archive" -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
	ln -sf "$1" "$out/${1%.so.*}.so"
}

archive=$1 out=$2
mkdir -p "$out"
link libbenthic.so.1 benthic.map
link librados.so.2 librados.map
