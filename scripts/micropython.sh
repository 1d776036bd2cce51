#!/usr/bin/env bash
set -euo pipefail

usage() {
    cat <<'END'
usage: scripts/micropython.sh [--32-bit]

Prints the path of a MicroPython 1.24 or later, and installs one below the
checkout if there is none:
  1. $MICROPYTHON, if set
  2. micropython on the PATH
  3. .local/micropython, what the next step left
  4. Debian and Ubuntu: the package micropython, unpacked into .local/micropython
     (the system is not changed, and no root is needed)
  5. macOS: brew install micropython

With --32-bit: the path of the i386 package's, unpacked into .local/micropython32,
whose pointers are as long as a chip's. Nothing where there is none, or where it
does not run.
END
}

# The releases to take the Debian package from, by the release of the machine.
releases() {
    case $1 in
    debian/bookworm) echo trixie ;; # has none
    debian/*) echo "${1#*/}" trixie ;;
    ubuntu/jammy | ubuntu/noble) echo resolute questing ;; # have 1.22 or older
    ubuntu/*) echo "${1#*/}" resolute questing ;;
    esac
}

oldest=1.24
# Only the path goes to standard output.
exec 3>&1 1>&2

say() { printf '%s\n' "$@"; }

fail() {
    say "$@"
    exit 1
}

# "1.25" for a MicroPython, nothing for anything else.
version() {
    "$1" -c 'import sys; print(sys.implementation[0], "%d.%d" % sys.implementation[1][:2])' \
        </dev/null 2>/dev/null | sed -n 's/^micropython //p' || true
}

new_enough() { [ -n "$1" ] && printf '%s\n' "$oldest" "$1" | sort -CV; }

# Prints the path and ends, if that program will do.
offer() {
    local path
    path=$(command -v "$1") && new_enough "$(version "$path")" || return 0
    case $path in /*) ;; *) path=$(cd "$(dirname "$path")" && pwd)/$(basename "$path") ;; esac
    printf '%s\n' "$path" >&3
    exit 0
}

bits=
case ${1-} in
'') ;;
--32-bit) bits=32 ;;
--help)
    usage >&3
    exit
    ;;
*)
    usage
    exit 2
    ;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
local=$root/.local
unpacked=$local/micropython$bits

if [ -n "$bits" ]; then
    [ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] && [ ! -e "$unpacked.none" ] || exit 0
    offer "$unpacked/micropython"
elif [ -n "${MICROPYTHON-}" ]; then
    offer "$MICROPYTHON"
    found=$(version "$MICROPYTHON")
    found=${found:+is MicroPython $found}
    fail "MICROPYTHON=$MICROPYTHON ${found:-does not run as MicroPython}, but $oldest or later is needed." \
        'Set it to the path of one, or unset it to have one found or installed.'
else
    offer micropython
    offer "$unpacked/micropython"
fi

# The package's own loader and libraries, because those of the machine may be older.
write_wrapper() {
    local loader
    loader=$(cd "$1" && echo usr/lib/*/ld-linux*.so.*)
    cat >"$1/micropython" <<END
#!/bin/sh
self=\$(readlink -f "\$0")
here=\${self%/*}
exec "\$here/$loader" --argv0 "\$self" --library-path "\$here/${loader%/*}" "\$here/usr/bin/micropython" "\$@"
END
    chmod +x "$1/micropython"
}

if command -v apt-get >/dev/null && [ "$(uname)" = Linux ]; then
    mkdir -p "$local"
    exec 9>"$unpacked.lock"
    flock -n 9 || {
        say 'Waiting for another set-up of MicroPython to end'
        flock 9
    }
    offer "$unpacked/micropython"
    # shellcheck source=/dev/null
    machine=$(. /etc/os-release && if [ -n "${UBUNTU_CODENAME-}" ]; then
        echo "ubuntu/$UBUNTU_CODENAME"
    else
        echo "debian/${DEBIAN_CODENAME:-${VERSION_CODENAME-}}"
    fi)
    say "Setting up MicroPython in ${unpacked#"$root"/} (once; the system is not changed)"
    for release in $(releases "$machine"); do
        # shellcheck disable=SC2086
        "$root/scripts/debs.sh" ${bits:+--arch i386} "$release" "$unpacked.new" micropython || continue
        write_wrapper "$unpacked.new"
        found=$(version "$unpacked.new/micropython")
        if new_enough "$found"; then
            rm -rf "$unpacked"
            mv "$unpacked.new" "$unpacked"
            offer "$unpacked/micropython"
        fi
        found=${found:+is $found, which is too old}
        say "The micropython of $release ${found:-does not run on this machine}"
        rm -rf "$unpacked.new"
    done
elif command -v brew >/dev/null && [ "$(uname)" = Darwin ]; then
    say 'Installing MicroPython with Homebrew'
    brew install micropython || true
    offer "$(brew --prefix)/bin/micropython"
fi

if [ -n "$bits" ]; then
    : >"$unpacked.none" # not tried again before the next `make clean`
    exit 0
fi
fail "No MicroPython $oldest or later was found here, and none could be installed. If the network or the disk" \
    'failed (see above), fix that and run the same command again; it starts afresh. Otherwise install' \
    "MicroPython yourself, as a package or built from its ports/unix, and put it on the PATH, or give its path:" \
    'MICROPYTHON=/path/to/micropython'
