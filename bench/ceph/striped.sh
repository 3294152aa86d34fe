#!/usr/bin/env bash
# Compares `benthic cp --stripe` with `rados --striper` and `rados bench`, on clusters that this
# script starts on this machine: one on loopback and, if run as root, one with a round trip of 10
# ms. `make bench-stripe` runs it. ROUNDS is the number of rounds, MIB the size of the file.
#
# Each sample is a whole run of a program, in turns, on one file of random bytes in the page cache,
# in objects of 4 MiB. Results are medians in MiB/s.
set -euo pipefail

benthic=$(realpath "${BENTHIC:-target/release/benthic}")
rounds=${ROUNDS:-3} mib=${MIB:-256} in_flight=16 bench_s=6
dir=$(mktemp -d "${TMPDIR:-/tmp}/benthic-stripe-XXXXXX")
down() { [ ! -e "$dir/cluster/benthic-cluster.json" ] || "$benthic" cluster down --remove --yes cluster --dir "$dir/cluster" >&2; }
trap 'down; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
export BENTHIC_STORE="ceph:?conf=$dir/cluster/ceph.conf"

rados() { command rados --conf "$dir/cluster/ceph.conf" --pool striped "$@"; }

# NAME COMMAND…: runs the command and adds its rate to the samples of NAME.
timed() {
  local name=$1 began ended
  shift
  began=$(date +%s%N)
  "$@" >/dev/null
  ended=$(date +%s%N)
  echo "$((mib * 1000000000 / (ended - began)))" >>"$dir/$name"
}

# NAME ARGUMENT…: adds the rate that `rados bench` reports to the samples of NAME.
bench() {
  local name=$1
  shift
  rados bench "$bench_s" "$@" -t "$in_flight" | awk -F: '/^Bandwidth/ { printf "%d\n", $2 }' >>"$dir/$name"
}

came_back() {
  cmp "$dir/file" "$dir/back"
  rm "$dir/back"
}

median() { sort -n "$dir/$1" | awk '{ of[NR] = $1 } END { print of[int((NR + 1) / 2)] }'; }

# WHAT PLACE: prints a row of the table.
row() {
  local cp unchecked striper bench
  cp=$(median "$1-cp") unchecked=$(median "$1-cp-no-check") striper=$(median "$1-striper") bench=$(median "$1-bench")
  awk -v what="$1" -v place="$2" -v mib="$mib" -v cp="$cp" -v un="$unchecked" -v st="$striper" -v be="$bench" 'BEGIN {
    printf "| %s of %d MiB, %s | %d | %d | %d | %d | %.1f | %.2f / %.2f |\n", what, mib, place, cp, un, st, be, cp / st, cp / be, un / be }'
}

# PLACE OPTION…: measures on a new cluster.
measure() {
  local place=$1
  shift
  "$benthic" cluster up --dir "$dir/cluster" --osds 3 "$@" >&2
  "$benthic" pool create striped >&2
  rm -f "$dir"/put-* "$dir"/get-*
  for round in $(seq "$rounds"); do
    echo "$place: round $round of $rounds" >&2
    timed put-striper rados --striper put theirs "$dir/file"
    timed put-cp "$benthic" cp --stripe --jobs "$in_flight" "$dir/file" striped/ours
    "$benthic" rm --stripe striped/ours
    timed put-cp-no-check "$benthic" cp --stripe --jobs "$in_flight" --no-check "$dir/file" striped/ours
    bench put-bench write --no-cleanup
    timed get-striper rados --striper get theirs "$dir/back"
    came_back
    timed get-cp "$benthic" cp --stripe --jobs "$in_flight" striped/ours "$dir/back"
    came_back
    timed get-cp-no-check "$benthic" cp --stripe --jobs "$in_flight" --no-check striped/ours "$dir/back"
    came_back
    bench get-bench rand --no-verify
    rados cleanup >&2
    rados --striper rm theirs
    "$benthic" rm --stripe striped/ours
  done
  row put "$place"
  row get "$place"
  down
}

head -c $((mib << 20)) /dev/urandom >"$dir/file"
echo "| MiB/s | \`cp --stripe\` | \`--no-check\` | \`rados --striper\` | \`rados bench -t $in_flight\` | cp / striper | cp / bench, checked / not |"
echo "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
measure loopback
if [ "$(id -u)" = 0 ]; then
  measure "10 ms away" --sites far --rtt-ms 10
else
  echo "skipped the cluster 10 ms away: it needs root" >&2
fi
