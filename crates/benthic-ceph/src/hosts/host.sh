# Inspects or changes one directory of class libraries. `script.rs` describes arguments, output and
# statuses.
#
# A library is written beside the old one and renamed, so an OSD that starts at any time finds one
# of the two. The record names the new and the old library and is durable before the rename, so an
# interrupted installation can be continued and undone.
set -u
umask 022
LC_ALL=C
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export LC_ALL PATH
echo 'benthic host 1'

action=$1 dir=$2 file=$3 new=$4 old=$5 size=$6

fail() {
    status=$1
    shift
    printf '%s\n' "$*" >&2
    exit "$status"
}

sum_of() {
    [ -e "$1" ] || [ -L "$1" ] || { echo none; return; }
    [ -f "$1" ] || { echo other; return; }
    sha256sum <"$1" | { read -r sum _ && echo "$sum"; } || echo other
}

free_bytes() {
    stat -f -c '%a %S' . | { read -r blocks block && echo $((blocks * block)); }
}

# The processes that use a file of this name: the process, its OSD, and whether the file is the
# present one.
processes() {
    inode=$(stat -c %i -- "$file" 2>/dev/null) || inode=none
    grep -lF -- "$here" /proc/[0-9]*/maps 2>/dev/null | while read -r maps; do
        state=
        while read -r _ _ _ _ mapped path; do
            case $path in
            "$here") state=current ;;
            "$here (deleted)") if [ "$mapped" = "$inode" ]; then state=current; else state=older; fi ;;
            *) continue ;;
            esac
            break
        done 2>/dev/null <"$maps"
        [ -n "$state" ] || continue
        process=${maps%/maps}
        printf 'process %s %s %s\n' "${process#/proc/}" "$(osd_of "$process")" "$state"
    done
}

osd_of() {
    tr '\0' '\n' 2>/dev/null <"$1/cmdline" | {
        osd=- next=
        while IFS= read -r word; do
            [ -z "$next" ] || { osd=$word; break; }
            case $word in
            -i | --id) next=yes ;;
            --id=*) osd=${word#--id=}; break ;;
            esac
        done
        case $osd in '' | *[!0-9]*) osd=- ;; esac
        echo "$osd"
    }
}

# The new and the old library of the last installation that was not undone.
read_record() {
    recorded_new=none recorded_old=none
    [ -e "$record" ] || return 0
    read -r recorded_new recorded_old <"$record" || fail 76 "cannot read $dir/$record"
    case $recorded_new$recorded_old in *[!0-9a-z]*) fail 76 "$dir/$record is damaged" ;; esac
    kept=.$file.$recorded_old.previous
}

report() {
    read_record
    [ -w . ] && writable=yes || writable=no
    printf 'arch %s\ndir %s\nwritable %s\nfree_bytes %s\nfile %s\nrecord %s %s\n' \
        "$(uname -m)" "$(pwd -P)" "$writable" "$(free_bytes)" "$(sum_of "$file")" "$recorded_new" "$recorded_old"
    mark=$(grep -a -o 'benthic-build:[ -~]*' -- "$file" 2>/dev/null | head -n 1)
    [ -z "$mark" ] || printf 'build %s\n' "${mark#*:}"
    processes
    echo 'end'
}

lock() {
    [ -w . ] || fail 73 "$dir is read-only"
    exec 9<.
    flock -n 9 || fail 75 "another command changes $dir now"
    # The lock is held, so these are of interrupted commands.
    rm -f -- ".$file".*.part
}

install() {
    lock
    part=.$file.$$.part new_record=.$file.$$.record.part
    trap 'rm -f -- "$part" "$new_record"' EXIT
    trap 'exit 143' HUP INT TERM PIPE
    if ! cat >"$part"; then
        [ "$(free_bytes)" -gt "$size" ] || fail 74 "the disk of $dir is full"
        fail 72 "cannot write into $dir"
    fi
    [ "$(sum_of "$part")" = "$new" ] || fail 77 "the library did not arrive completely"
    chmod 644 "$part" && chown 0:0 "$part" && sync "$part" || fail 72 "cannot write into $dir"
    present=$(sum_of "$file")
    if [ "$present" = "$new" ]; then
        chmod 644 "$file" && chown 0:0 "$file" || fail 72 "cannot change $dir/$file"
        return
    fi
    [ "$present" = "$old" ] || fail 78 "$dir/$file has changed since the plan was made"
    kept=.$file.$old.previous
    [ "$old" = none ] || ln -f -- "$file" "$kept" || fail 72 "cannot keep the present library in $dir"
    printf '%s %s\n' "$new" "$old" >"$new_record" && sync "$new_record" && mv -f -- "$new_record" "$record" ||
        fail 72 "cannot write into $dir"
    sync . && mv -f -- "$part" "$file" && sync . || fail 72 "cannot rename the library in $dir"
    for other in ".$file".*.previous; do
        [ "$other" = "$kept" ] || rm -f -- "$other"
    done
}

undo() {
    lock
    read_record
    present=$(sum_of "$file")
    [ "$recorded_new" != none ] || return 0
    if [ "$present" != "$recorded_old" ]; then
        [ "$present" = "$recorded_new" ] || fail 78 "$dir/$file is not the library that was installed last"
        if [ "$recorded_old" = none ]; then
            rm -f -- "$file" || fail 72 "cannot remove $dir/$file"
        else
            [ "$(sum_of "$kept")" = "$recorded_old" ] || fail 76 "$dir/$kept, the previous library, is missing or damaged"
            mv -f -- "$kept" "$file" || fail 72 "cannot rename the previous library in $dir"
        fi
        sync . || fail 72 "cannot write into $dir"
    fi
    rm -f -- "$record" "$kept" && sync . || fail 72 "cannot write into $dir"
}

for program in cat chmod chown flock grep head ln mv rm sha256sum stat sync tr uname; do
    command -v "$program" >/dev/null || fail 70 "the host has no program $program"
done
cd -P -- "$dir" 2>/dev/null || fail 71 "there is no directory $dir on the host"
here=$(pwd -P)/$file
record=.$file.undo
kept=
case $action in
inspect) ;;
install) install ;;
undo) undo ;;
*) fail 70 "unknown action" ;;
esac
report
